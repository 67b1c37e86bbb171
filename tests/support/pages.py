"""The blocks of a page of Markdown, and what it takes to run them."""

from __future__ import annotations

import os
import re
import runpy
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from clock import stop_the_clock
from nearly import is_same_but_for_decimals

from tinymem.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = (REPOSITORY / "tinymem").is_dir()
needs_sources = pytest.mark.skipif(not SOURCES, reason="the tests run beside an installed wheel")
WRITES = "TINYMEM_WRITE_PAGES" in os.environ  # put what blocks print into the pages, instead of comparing it
VARIES = {r"\d{4}-\d\d-\d\d( \d\d:\d\d)?": "DATE", r"(?<=recalled-)\d{12}": "DIGITS", r"\d+ ms": "TIME"}


@dataclass(frozen=True)
class Block:
    """A fenced block: `line` is where its code begins, `title` the file that it is shown as."""

    language: str
    line: int
    code: str
    title: str = ""


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = re.finditer(r'^```(\w*)(?: title="([^"]+)")?[^\n]*\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], text[: m.start()].count("\n") + 2, m[3], m[2] or "") for m in found]


def run_page(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], with_commands: bool = True
) -> int:
    """Do what a page shows, in the current folder, and count the blocks that ran.

    A block with a title is saved under it. Python blocks share a namespace; of bash blocks, calls of tinymem and python
    run, `with_commands`. A text block behind a block is what that prints, but for dates, times, digits of fences, and
    the last digits of decimals.
    """
    namespace: dict[str, object] = {"__name__": "page"}
    ran, printed_at = 0, dict[int, str]()
    monkeypatch.syspath_prepend(str(Path.cwd()))
    stop_the_clock(monkeypatch, datetime.now(timezone.utc))
    for block, following in pairwise([*blocks(page), Block("", 0, "")]):
        if block.title:
            Path(block.title).write_text(block.code, "utf-8")
            continue
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
        elif block.language == "bash" and with_commands:
            for line in block.code.splitlines():
                _run_command(line, monkeypatch)
        else:
            continue
        ran += 1
        printed = capsys.readouterr().out
        if following.language == "text":
            printed_at[following.line] = printed
            texts = _without_what_varies(printed), _without_what_varies(following.code)
            assert WRITES or is_same_but_for_decimals(*texts), (page, block.line)
    if WRITES:
        _write(page, printed_at)
    return ran


def _run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line of a shell in this process, if it calls tinymem or python."""
    program, *words = shlex.split(line, comments=True) or [""]
    monkeypatch.setattr("sys.argv", [program, *words])
    if program == "tinymem":
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, line
    elif program == "python" and words[0] == "-m":
        monkeypatch.setattr("sys.argv", words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif program == "python":
        runpy.run_path(words[0], run_name="__main__")


def _without_what_varies(text: str) -> str:
    for pattern, name in VARIES.items():
        text = re.sub(pattern, name, text)
    return text


def _write(page: Path, printed_at: dict[int, str]) -> None:
    lines = page.read_text("utf-8").splitlines(keepends=True)
    for first in sorted(printed_at, reverse=True):
        end = lines.index("```\n", first - 1)
        lines[first - 1 : end] = printed_at[first].splitlines(keepends=True)
    page.write_text("".join(lines), "utf-8")


def commands(page: Path) -> list[list[str]]:
    """The calls of `tinymem` in the page's blocks of a shell, as words; those in a block of `sh` are not run."""
    shown = [line for block in blocks(page) if block.language in ("bash", "sh") for line in block.code.splitlines()]
    found = [m[1] for line in shown for m in re.finditer(r"(?:^|&& )(tinymem .+)", line)]
    return [shlex.split(call, comments=True) for call in found]


def python_of(
    page: Path, title: str = "", first: int | None = None, instead: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run the Python blocks of a page as one, of the `title`, the `first` ones, with words replaced; give its names."""
    found = [block.code for block in blocks(page) if (block.language, block.title) == ("python", title)]
    code = "\n".join(found[:first])
    for word, other in (instead or {}).items():
        assert word in code
        code = code.replace(word, other)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(page), "exec"), names)
    return names


def broken_links(page: Path) -> list[str]:
    """The links of a page to files or headings that are not there."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and not (target.exists() and (not heading or heading in _places(target))):
            broken.append(link)
    return broken


def _places(page: Path) -> list[str]:
    lines = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines]
