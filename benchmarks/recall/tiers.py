"""Costs and gains of episode summaries: recall at equal tokens, with a share of the budget for the medium tier.

    python -m benchmarks.recall.tiers --data FILE... --out benchmarks/results/tiers.json [--shares 0,0.05,0.1,0.2]
    python -m benchmarks.recall.tiers --out benchmarks/results/tiers.json --write  # the table in tables/episodes.md

Of each budget a share goes to the block of episodes, as in a context, and the rest to recall; both texts together are
scored as in `benchmarks.recall`. Lines of a summary are word for word, and claim the slices of the units they are from.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.data import Claim, Haystack, Question, Recalled, claimed, read_haystacks, sha256
from benchmarks.harness.documents import parser_of, placed, settle
from benchmarks.harness.methods import Setup, Tinymem
from benchmarks.harness.scoring import score
from benchmarks.recall.run import budgets
from tinymem import TinymemError
from tinymem.errors import InputError
from tinymem.memory.context.contexts import episodes_block
from tinymem.messages.tokens import default_counter

__all__ = ["FORMAT", "Tiers", "main", "table"]

PROGRAM = "benchmarks.recall.tiers"
FORMAT = "tiers 1"
PAGE = Path(__file__).parents[1] / "tables" / "episodes.md"
MARKS = f"<!-- tiers: python -m {PROGRAM} --write -->", "<!-- end of tiers -->"
LINE = re.compile(r"^#(\d+) [^:]*: (.+?)…?$")


class Tiers(Tinymem):
    """`Tinymem` with the block of episodes in front of what is recalled."""

    def with_episodes(self, question: Question, budget: int, share: float) -> Recalled:
        """Return the text of both tiers in `budget` tokens."""
        memory = self._memory
        memory.medium_term.settle()
        block = episodes_block(memory.medium_term, memory.long_term, int(share * budget)) if share else None
        if block is None or not block.text:
            return self.recall(question, budget)
        used = default_counter().count(f"{block.text}\n")
        found = self.recall(question, budget - used)
        claims = [claim for line in block.text.splitlines() for claim in self._claims(line)]
        return Recalled(f"{block.text}\n{found.text}", (*claims, *found.claims))

    def _claims(self, line: str) -> Iterator[Claim]:
        """Yield the place in the units of the words of a summary's line."""
        if not (found := LINE.match(line)):
            return
        step = self._memory.get(int(found[1]))
        words = re.compile(r"\s+".join(map(re.escape, found[2].split())))
        for place in self._places[step.id]:
            if slice_ := words.search(self.units[place].text):
                yield Claim(place, slice_.start(), slice_.end())
                return


def measured(path: Path, shares: Sequence[float], tokens: Sequence[int]) -> dict[str, Any]:
    """For each share and budget the recall of each type of question, and of all."""
    values: dict[float, dict[int, dict[str, list[float]]]] = {}
    for haystack in read_haystacks(path):
        sys.stderr.write(f"{path.name}: {haystack.id}\n")
        with tempfile.TemporaryDirectory(prefix="tiers-", ignore_cleanup_errors=True) as folder:
            method = Tiers(Setup(Path(folder) / "memory", store="exact", agent_run=haystack.is_agent_run))
            try:
                lines = _asked(method, haystack, shares, tokens)
            finally:
                method.close()
        for share in shares:
            for budget, rows in score([haystack], lines[share]).items():
                types = values.setdefault(share, {}).setdefault(budget, defaultdict(list))
                for row in rows:
                    if row.type != "adversarial":
                        types[row.type].append(row.value)
                        types["all"].append(row.value)
    return {
        str(share): {
            str(budget): {name: round(sum(some) / len(some), 4) for name, some in sorted(types.items())}
            for budget, types in of_share.items()
        }
        for share, of_share in values.items()
    }


def _asked(
    method: Tiers, haystack: Haystack, shares: Sequence[float], tokens: Sequence[int]
) -> dict[float, dict[tuple[str, str, int], dict[str, Any]]]:
    lines: dict[float, dict[tuple[str, str, int], dict[str, Any]]] = {share: {} for share in shares}
    added = 0
    for query in haystack.queries:
        if query.cutoff > added:
            method.add(haystack.units[added : query.cutoff])
            added = query.cutoff
        if query.type == "adversarial" or not query.question.text.strip():
            continue
        for share in shares:
            for budget in tokens:
                found = method.with_episodes(query.question, budget, share)
                line = {"budget": budget, "text": found.text, "units": claimed(haystack, found)}
                lines[share][haystack.id, query.id, budget] = line
    return lines


def table(record: Mapping[str, Any]) -> str:
    """A row for each file and type of question: recall without the medium tier, and what each share changes."""
    shares = [share for share in next(iter(record["files"].values()))["shares"] if float(share)]
    lines = []
    for name, file in record["files"].items():
        base = file["shares"]["0.0"]
        heads = [f"{float(share):.0%} @{budget}" for share in shares for budget in base]
        lines += [f"**{name}**", "", f"| type | {' | '.join(f'none @{b}' for b in base)} | {' | '.join(heads)} |"]
        lines.append(f"| --- |{' ---: |' * (len(base) + len(heads))}")
        for kind in sorted(next(iter(base.values())), key=lambda kind: (kind != "all", kind)):
            without = [f"{base[b][kind]:.3f}" for b in base]
            change = [f"{file['shares'][s][b][kind] - base[b][kind]:+.3f}" for s in shares for b in base]
            lines.append(f"| {kind} | {' | '.join([*without, *change])} |")
        lines.append("")
    return "\n".join(lines).strip()


def main(given: Sequence[str] | None = None) -> None:
    """Measure, or put the table into place."""
    parser = parser_of(PROGRAM, __doc__)
    add = parser.add_argument
    add("--data", type=Path, nargs="+", default=[], metavar="FILE", help="haystacks: JSON lines, also gzip'd")
    add("--shares", default="0,0.05,0.1,0.2", help="default: %(default)s")
    add("--budgets", type=budgets, default=(1024, 2048, 4096, 8192), metavar="N,N", help="tokens")
    add("--out", type=Path, required=True, metavar="RESULTS.json")
    args = parser.parse_args(given)
    try:
        if args.data:
            shares = [float(share) for share in args.shares.split(",")]
            files = {
                path.name: {"sha256": sha256(path), "shares": measured(path, shares, args.budgets)}
                for path in args.data
            }
            args.out.write_text(json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n", encoding="utf-8")
        record = json.loads(args.out.read_text(encoding="utf-8"))
        text = table(record)
        print(text)
        if args.write or args.check:
            settle(PROGRAM, {PAGE: placed(PAGE.read_text(encoding="utf-8"), text, *MARKS)}, args.write)
    except (TinymemError, InputError, OSError, ValueError) as error:
        sys.exit(f"{PROGRAM}: {error}")


if __name__ == "__main__":
    main()
