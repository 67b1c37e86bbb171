"""`tinymem show` and `explain`: piped, on a terminal, and without rich."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Done, Run, child_environment, terminal_text
from commands import tinymem as tinymem  # the fixture
from hostile import HOSTILE
from memories import START
from rich.cells import cell_len
from work import PATIENCE

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.memory.inspection.report import report_of

COMMANDS = (["show"], ["visualize"], ["explain", "Where is [red]staging?"])
PROGRAM = f"""
import sys
from tinymem.cli.main import main
for command in {COMMANDS!r}:
    sys.argv = ["tinymem", *command]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
"""
SIZE = re.compile(r"on disk .*\n")  # opening the journal and filling the index change it
unix = pytest.mark.skipif(os.name != "posix", reason="terminals of Unix")


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory of some steps, one of them hostile."""
    path = tmp_path / "memory"
    with HierarchicalMemory(path, max_tokens=400) as opened:
        opened.add(TaskStep("Find out where [red]staging runs.", timestamp=START))
        opened.add(MessageStep("user", "The staging server is at 10.0.0.7.", session="may", timestamp=START))
        opened.add(ActionStep("Look.", tool_name="ping", observation=HOSTILE.replace("\ud800", ""), timestamp=START))
        opened.add_steps(
            [MessageStep("user", f"Lot {i} holds {i * 7} crates.", session="june", timestamp=START) for i in range(40)]
        )
    return path


def environment(**more: str) -> dict[str, str]:
    without = ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TINYMEM_PATH", "TINYMEM_NAMESPACE", "TINYMEM_EMBEDDER")
    kept = {name: value for name, value in child_environment().items() if name not in without}
    return kept | {"TERM": "xterm-256color", "COLUMNS": "90", "PYTHONUTF8": "1"} | more


def on_terminal(program: str, cwd: Path, **env: str) -> str:
    """What they write to a terminal of 90 columns."""
    import pty

    ours, theirs = pty.openpty()
    command, env = [sys.executable, "-c", program], environment(**env)
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as running:
        os.close(theirs)
        written = terminal_text(ours)
        assert running.wait(PATIENCE) == 0, running.stderr and running.stderr.read()
    return written.replace("\r\n", "\n")


# -- piped


def test_what_is_printed_is_the_report(tinymem: Run, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with HierarchicalMemory(memory, create=False) as opened:
        opened.long_term.queue.embed_pending()
    with HierarchicalMemory(memory, create=False) as opened:
        opened.path = Path("memory")
        report, short = (report_of(opened, steps=steps).text(100) for steps in (5, 16))
        explained = opened.explain("Where is staging?", 200).text(100)
    shown = tinymem("show", "--steps", "5")
    printed = tinymem("show")
    assert (shown.status, SIZE.sub("", shown.out), shown.err) == (0, SIZE.sub("", f"{report}\n"), "")
    assert (printed.status, SIZE.sub("", printed.out), printed.err) == (0, SIZE.sub("", f"{short}\n"), "")
    assert tinymem("visualize") == printed
    assert tinymem("explain", "Where is staging?", "--max-tokens", "200") == Done(0, f"{explained}\n", "")


# -- on a terminal


@unix
def test_a_terminal_gets_colours_from_rich_and_nothing_from_what_is_archived(memory: Path) -> None:
    shown = on_terminal(PROGRAM, memory.parent)
    assert len(re.findall(r"\x1b\[[0-9;]*3[4-6]m", shown)) > 40
    assert "\x1b]8" not in shown and "\x1b[31m" not in shown and "\u202e" not in shown
    assert "[red]" in shown  # as text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in plain and max(map(cell_len, plain.splitlines())) <= 90
