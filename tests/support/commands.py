"""The command `tinymem`, as tests run it: in a process of its own, and in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tinymem.cli.main import main


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


def child_environment(**more: str) -> dict[str, str]:
    """The variables of this process and `more`, for a child that imports what this one does, installed or not."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | more


def command_environment() -> dict[str, str]:
    """The variables of a child, less what would choose another memory."""
    return {name: value for name, value in child_environment().items() if not name.startswith("TINYMEM_")}


def process(*args: str, cwd: Path | None = None, input: str | None = None, **env: str) -> Done:
    """The command in a process of its own, as a user starts it."""
    done = subprocess.run(
        [sys.executable, "-m", "tinymem.cli", *args], cwd=cwd, env=command_environment() | {"COLUMNS": "80"} | env,
        input=input, capture_output=True, encoding="utf-8", timeout=600,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def python_on_a_terminal(*args: str, cwd: Path | None = None, input: str = "") -> Done:
    """Python with a terminal for all that it prints, which stands together in `out`."""
    import pty

    ours, theirs = pty.openpty()
    with started(args, cwd, "dumb", stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        assert running.stdin is not None
        running.stdin.write(input.encode())
        running.stdin.close()
        shown = terminal_text(ours)
    return Done(running.returncode, shown, "")


def started(args: Sequence[str], cwd: Path | None, terminal: str, **pipes: Any) -> subprocess.Popen[bytes]:
    """Python in a process of its own, which imports what this one does, in UTF-8 whatever the locale."""
    command = [sys.executable.encode(), *(arg.encode() for arg in args)]
    return subprocess.Popen(command, cwd=cwd, env=child_environment(TERM=terminal, PYTHONUTF8="1"), **pipes)


def before_a_terminal(*args: str, cwd: Path | None = None) -> Done:
    """The command with a terminal for its standard error."""
    import pty

    ours, theirs = pty.openpty()
    with tempfile.TemporaryFile() as out:
        with started(["-m", "tinymem.cli", *args], cwd, "xterm", stdout=out, stderr=theirs) as running:
            os.close(theirs)
            shown = terminal_text(ours)
        out.seek(0)
        return Done(running.returncode, out.read().decode(), shown)


def terminal_text(terminal: int) -> str:
    """What is written to a terminal until its other side is closed; it is closed then.

    A terminal holds a few thousand bytes, so a process that writes more hangs unless somebody reads meanwhile.
    """
    written = b""
    while piece := _read(terminal):
        written += piece
    os.close(terminal)
    return written.decode("utf-8")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # how Linux says that the other side is closed
        return b""


@pytest.fixture
def tinymem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("TINYMEM_PATH", "TINYMEM_NAMESPACE", "TINYMEM_EMBEDDER"):
        monkeypatch.delenv(name, raising=False)

    def running(*args: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["tinymem", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Done(int(ended.value.code or 0), out, err)

    return running


def interruptible() -> list[str]:
    """The command line of tinymem, ended by SIGINT also where the tests ignore it, as a job in the background does."""
    program = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('tinymem.cli', run_name='__main__')"
    )
    return [sys.executable, "-c", program]
