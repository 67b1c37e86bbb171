"""The blocks of a page of Markdown, and what it takes to run them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Block:
    """A fenced block: `line` is where its code begins."""

    language: str
    line: int
    code: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], text[: m.start()].count("\n") + 2, m[2]) for m in found]


def run_python(page: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Run the Python blocks of a page in one namespace, in order, and count them. A text block behind a Python block is
    what that prints."""
    namespace: dict[str, object] = {"__name__": "page"}
    ran = 0
    for block, following in pairwise([*blocks(page), Block("", 0, "")]):
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
            ran += 1
            printed = capsys.readouterr().out
            assert following.language != "text" or printed == following.code
    return ran


def commands(page: Path) -> list[list[str]]:
    """The calls of `tinymem` in the page's bash blocks, as words."""
    shown = [line for block in blocks(page) if block.language == "bash" for line in block.code.splitlines()]
    found = [m[1] for line in shown for m in re.finditer(r"(?:^|&& )(tinymem .+)", line)]
    return [shlex.split(call, comments=True) for call in found]


def missing_links(page: Path) -> list[str]:
    """The links of a page to files that are not there."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]
