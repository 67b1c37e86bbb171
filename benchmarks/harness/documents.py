"""Shared parts of the scripts that put tables and plots into documents: options, marks, writing and checking."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.harness.chart import Chart
from tinymem.errors import InputError

__all__ = ["command_line", "deliver", "parser_of", "placed", "settle"]


def command_line(program: str, about: str | None) -> argparse.ArgumentParser:
    """The command line of `python -m program`, whose help is `about` as it stands."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=f"python -m {program}", description=about, formatter_class=raw)


def parser_of(program: str, about: str | None) -> argparse.ArgumentParser:
    """A command line with `--write` and `--check`."""
    parser = command_line(program, about)
    parser.add_argument("--write", action="store_true", help="put what the results give into place")
    parser.add_argument("--check", action="store_true", help="exit with 1 if something else is there")
    return parser


def placed(document: str, text: str, first: str, last: str) -> str:
    """`document` with `text` between the marks `first` and `last`; InputError if it has none."""
    head, start, rest = document.partition(first)
    _, end, tail = rest.partition(last)
    if not start or not end:
        raise InputError(f"the document lacks the marks {first} and {last}")
    return f"{head}{first}\n\n{text}\n\n{last}{tail}"


def settle(program: str, wanted: Mapping[Path, str | Chart], write: bool) -> None:
    """Write the files as they are `wanted`, or end with 1 if one of them is not so.

    Of a chart the figures are compared, since another version of matplotlib draws it otherwise.
    """
    for path, content in wanted.items():
        if write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content.svg() if isinstance(content, Chart) else content, encoding="utf-8")
        elif not path.exists() or not _is_so(path.read_text(encoding="utf-8"), content):
            sys.exit(f"{program}: {path.name} holds other figures than the results give: run with --write")


def _is_so(held: str, wanted: str | Chart) -> bool:
    return wanted.digest in held if isinstance(wanted, Chart) else held == wanted


def deliver(program: str, args: argparse.Namespace, text: Callable[[], str], first: str, last: str) -> None:
    """Print what `text` gives; with `--write` or `--check`, put it between the marks in `args.page`, or compare."""
    try:
        found = text()
        if not args.write and not args.check:
            print(found)
            return
        wanted = placed(args.page.read_text(encoding="utf-8"), found, first, last)
    except (InputError, OSError) as error:
        sys.exit(f"{program}: {error}")
    settle(program, {args.page: wanted}, args.write)
