"""Hashes of the haystacks that the figures here were measured on, so that a converted set can be compared with them.

python -m benchmarks.datasets.hashes --data FILE...     write benchmarks/datasets/hashes.json

The hash of the units covers speakers, texts, times, sessions and calls; that of the queries ids, texts, times, types,
cutoffs, needles and gold. Answers are left out: the files used here have none.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.data import lines_of
from benchmarks.harness.documents import command_line
from tinymem.errors import InputError

__all__ = ["HASHES", "compared", "hashes_of", "main", "read_hashes"]

HASHES = Path(__file__).with_name("hashes.json")
PROGRAM = "benchmarks.datasets.hashes"
DIGITS = 16


def hashes_of(haystack: Mapping[str, Any]) -> tuple[str, str]:
    """Return the hashes of a haystack's units and of its queries."""
    queries = [{name: value for name, value in query.items() if name != "answer"} for query in haystack["queries"]]
    return _hash(haystack["units"]), _hash(queries)


def compared(haystack: Mapping[str, Any], used: Mapping[str, Sequence[str]]) -> str:
    """Say how a haystack differs from the one that was used here.

    >>> one = {"id": "a", "units": [], "queries": []}
    >>> compared(one, {"a": hashes_of(one)}), compared(one, {}), compared(one, {"a": hashes_of(one)[:1] + ("",)})
    ('the same', 'not used here', 'other queries')
    """
    if haystack["id"] not in used:
        return "not used here"
    found = zip(("units", "queries"), hashes_of(haystack), used[haystack["id"]], strict=True)
    other = [what for what, ours, theirs in found if ours != theirs]
    return f"other {' and '.join(other)}" if other else "the same"


def read_hashes() -> dict[str, tuple[str, str]]:
    """Return the committed hashes by the haystacks' ids."""
    sets = json.loads(HASHES.read_text(encoding="utf-8"))
    return {id: (units, queries) for one in sets.values() for id, (units, queries) in one.items()}


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _named(path: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    for line in lines_of(path):
        one = json.loads(line)
        yield one["id"], hashes_of(one)


def main(given: Sequence[str] | None = None) -> None:
    """Write the hashes of the given sets."""
    parser = command_line(PROGRAM, __doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE", help="haystacks")
    parser.add_argument("--out", type=Path, default=HASHES)
    args = parser.parse_args(given)
    try:
        found = {path.name.partition(".")[0]: dict(_named(path)) for path in args.data}
    except (InputError, OSError, ValueError, KeyError) as error:
        sys.exit(f"{PROGRAM}: {error!r}")
    lines = [f" {json.dumps(name)}: {{\n{_rows(found[name])}\n }}" for name in sorted(found)]
    args.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _rows(hashes: Mapping[str, Sequence[str]]) -> str:
    return ",\n".join(f"  {json.dumps(id)}: {json.dumps(list(pair))}" for id, pair in hashes.items())


if __name__ == "__main__":
    main()
