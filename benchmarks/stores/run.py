"""PostgreSQL beside SQLite: the same memories in a database and in a folder, asked in turns.

    python -m benchmarks.stores --url URL --folder FOLDER --fill 300 20000     # fills both; goes on where it stopped
    python -m benchmarks.stores --url URL --folder FOLDER --speed 40 --writers 3

URL is that of a server on this machine, whose user owns the tables. What is measured goes into
benchmarks/results/postgres.summary.json beside what is there, and by `python -m benchmarks.stores.table --write` into
docs/scaling.md. The times are the machine's, loaded or not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, read_summary, write_summary
from benchmarks.stores.fill import fill, filled
from benchmarks.stores.speed import server, sizes, speed
from benchmarks.stores.writers import writing

__all__ = ["RESULTS", "main"]

RESULTS = Path(__file__).parents[1] / "results" / "postgres.summary.json"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("benchmarks.stores", __doc__)
    add = parser.add_argument
    add("--url", required=True, help="a database, whose tables are made if there are none")
    add("--folder", type=Path, metavar="FOLDER", help="the folder of SQLite's memories")
    add("--fill", type=int, nargs="+", default=(), metavar="N", help="fill a namespace for each N up to N passages")
    add("--speed", type=int, default=0, metavar="N", help="ask N questions of each namespace on each engine")
    add("--writers", type=int, default=0, metavar="N", help="write N times with one writer and with four, in turns")
    add("--out", type=Path, default=RESULTS, metavar="SUMMARY.json", help="the file to write")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, and write each part as soon as it is measured."""
    args = arguments(given)
    record = read_summary(args.out) if args.out.exists() else {}

    def keep(part: str, found: object) -> None:
        record.update({"benchmark": "postgres", **circumstances(), part: found})
        write_summary(args.out, record)
        print(part, found, flush=True)

    if args.fill:
        keep("filled", {**record.get("filled", {}), **fill(args.folder, args.url, args.fill, print)})
        keep("sizes", sizes(args.folder, args.url))
    if args.speed:
        keep("server", server(args.url))
        keep("speed", speed(args.folder, args.url, filled(args.url), args.speed))
    if args.writers:
        keep("writers", writing(args.url, args.writers))


if __name__ == "__main__":
    main()
