"""Public data sets, turned into haystacks and compared with those that the figures here were measured on.

    python -m benchmarks.datasets locomo --from locomo10.json --out locomo.jsonl
    python -m benchmarks.datasets realtalk --from REALTALK/data --out realtalk.jsonl
    python -m benchmarks.datasets longmemeval --from longmemeval_s.json --out longmemeval.jsonl
    python -m benchmarks.datasets beam --from BEAM/chats/100K --out beam100k.jsonl
    python -m benchmarks.datasets tau-bench --from gpt-4o-airline.json --out tau-airline.jsonl
    python -m benchmarks.datasets mini-swe-agent --from FOLDER --out swe-traces.jsonl

With --used, only the haystacks used here are written. README.md beside this says what is known to be the same.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.datasets.chats import beam, locomo, longmemeval, realtalk
from benchmarks.datasets.hashes import compared, read_hashes
from benchmarks.datasets.runs import mini_swe_agent, tau_bench
from benchmarks.harness.documents import command_line
from tinymem.errors import InputError

__all__ = ["SETS", "main"]

PROGRAM = "benchmarks.datasets"
SETS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "locomo": locomo, "realtalk": realtalk, "longmemeval": longmemeval, "beam": beam,
    "tau-bench": tau_bench, "mini-swe-agent": mini_swe_agent,
}  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    """Convert, compare, write and report."""
    parser = command_line(PROGRAM, __doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="PATH", help="the public file or folder"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl", help="the haystacks to write")
    parser.add_argument("--used", action="store_true", help="write only haystacks that were used here")
    args = parser.parse_args(given)
    used, outcomes = read_hashes(), Counter[str]()
    try:
        with args.out.open("w", encoding="utf-8") as out:
            for haystack in SETS[args.set](args.source):
                outcome = compared(haystack, used)
                outcomes[outcome] += 1
                if outcome != "not used here" or not args.used:
                    out.write(json.dumps(haystack) + "\n")
                if outcome.startswith("other"):
                    print(f"{haystack['id']}: {outcome} than here")
    except (InputError, OSError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    except (LookupError, TypeError, ValueError) as error:
        sys.exit(f"{PROGRAM}: {args.source} is not as {args.set} was published: {error!r}")
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())) or "no haystacks")
