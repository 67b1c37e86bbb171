"""Every reader of what others wrote, fuzzed: how many inputs it has seen without another error than ours.

    pip install atheris
    python -m benchmarks.reliability.fuzz [--seconds 60] [--jobs 2] [--only TARGET] [--out RESULT.summary.json]

Each target of tests/fuzz/targets.py is given to libFuzzer for so long, in a process of its own, guided by which code of
tinymem an input reaches. Exit status 1, and the input's place, if one ended it. The same targets run with hypothesis in
tests/reliability/test_fuzz.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import command_line
from benchmarks.harness.summary import circumstances, write_summary

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "fuzz.summary.json"
_DONE = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)
_COVERED = re.compile(r"\bcov: (\d+)")
_TARGET = re.compile(r'^    "(\w+)": _guarded\(', re.MULTILINE)


def targets() -> list[str]:
    """The names in tests/fuzz/targets.py, which only the fuzzing processes import."""
    return _TARGET.findall((ROOT / "tests" / "fuzz" / "targets.py").read_text(encoding="utf-8"))


def fuzzed(target: str, seconds: int, folder: Path) -> dict[str, Any]:
    """Fuzz one target; its figures, or what ended it."""
    place = folder / target
    place.mkdir()
    command = [
        sys.executable,
        str(ROOT / "tests" / "fuzz"),
        target,
        f"-max_total_time={seconds}",
        "-print_final_stats=1",
    ]
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    output = done.stderr.decode("utf-8", "replace")
    cases, covered = _DONE.search(output), _COVERED.findall(output)
    if done.returncode or cases is None:
        return {"cases": 0, "seconds": 0, "wrong": output[-4_000:]}
    return {
        "cases": int(cases[1]),
        "seconds": int(cases[2]),
        "covered": int(covered[-1]) if covered else 0,
        "wrong": "",
    }


def main(given: Sequence[str] | None = None) -> None:
    """Fuzz, write, print."""
    parser = command_line("benchmarks.reliability.fuzz", __doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="J", help="targets at once")
    parser.add_argument("--only", action="append", choices=targets(), help="targets; repeatable")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="SUMMARY.json", help="the file to write")
    args = parser.parse_args(given)
    names = args.only or targets()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, ThreadPoolExecutor(args.jobs) as pool:
        found = dict(zip(names, pool.map(lambda name: fuzzed(name, args.seconds, Path(folder)), names), strict=True))
    wrong = {name: one.pop("wrong") for name, one in found.items()}
    for name, one in found.items():
        print(f"{name:12}{one['cases']:>12,} inputs in {one['seconds']} s", "FAILED" if wrong[name] else "")
    if any(wrong.values()):
        sys.exit("\n\n".join(text for text in wrong.values() if text))
    write_summary(args.out, {"benchmark": "fuzz", **circumstances(), "targets": found})


if __name__ == "__main__":
    main()
