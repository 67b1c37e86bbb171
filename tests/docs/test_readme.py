"""README.md is true: every Python block runs, in order, in one namespace."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
FIRST_SCREEN = 40  # lines


@dataclass(frozen=True)
class Block:
    language: str
    line: int
    code: str


def blocks() -> list[Block]:
    if not README.exists():
        return []
    text = README.read_text("utf-8")
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], text[: m.start()].count("\n") + 2, m[2]) for m in found]


BLOCKS = blocks()
PYTHON = [block for block in BLOCKS if block.language == "python"]

pytestmark = pytest.mark.skipif(not PYTHON, reason="README.md has no Python blocks yet")


def test_every_python_block_runs_and_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks that talk to an API (`client`) are compiled only: there is no pretended one. A text block behind a Python
    block is what that prints."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    ran = 0
    for block, following in pairwise([*BLOCKS, Block("", 0, "")]):
        if block.language != "python":
            continue
        code = compile("\n" * (block.line - 1) + block.code, str(README), "exec")
        if not re.search(r"\bclient\b", block.code):
            exec(code, namespace)
            ran += 1
            printed = capsys.readouterr().out
            assert following.language != "text" or printed == following.code
    assert ran
    assert not list(Path(__file__).parent.glob("memory"))


def test_the_first_code_block_stands_on_the_first_screen() -> None:
    assert BLOCKS[0].line <= FIRST_SCREEN
    assert PYTHON[0].line <= FIRST_SCREEN


def test_the_two_commands_stand_on_the_first_screen_and_do_what_ci_does() -> None:
    first = "\n".join(README.read_text("utf-8").splitlines()[:FIRST_SCREEN])
    assert "pip install . && tinymem demo" in first
    assert 'pip install -e ".[test]" && pytest' in first


def test_files_that_are_linked_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README.read_text("utf-8"))
    here = [link for link in links if "://" not in link]
    missing = [link for link in here if not (README.parent / link).exists()]
    if not (README.parent / "tinymem").is_dir():
        pytest.skip("the tests run beside an installed wheel")
    assert missing == []


def test_commands_that_are_shown_are_commands() -> None:
    from typer.testing import CliRunner

    from tinymem.cli.main import app

    shown = [line for b in BLOCKS if b.language in ("bash", "sh") for line in b.code.splitlines()]
    calls = [m[1] for line in shown for m in re.finditer(r"(?:^|&& )(tinymem [^#&]+)", line)]
    assert len(calls) >= 4
    for call in calls:
        command = shlex.split(call)[1]
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0, call
        for option in re.findall(r"(--[a-z-]+)", call):
            assert option in result.output, call


def test_commands_work_as_they_stand_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All but the ones that need another embedder's weights, or install."""
    from tinymem.cli.main import main

    monkeypatch.chdir(tmp_path)
    shown = [line for b in BLOCKS if b.language == "bash" for line in b.code.splitlines()]
    calls = [shlex.split(line, comments=True) for line in shown if line.startswith("tinymem ")]
    calls = [call for call in calls if "reindex" not in call]
    assert len(calls) >= 12
    for call in calls:
        monkeypatch.setattr("sys.argv", call)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert not ended.value.code, (call, err)
        assert out or err
