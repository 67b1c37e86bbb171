"""The command `tinymem`, as tests run it: in a process of its own, and in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tinymem.cli.main import main


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


def process(*args: str, cwd: Path | None = None, input: str | None = None, **env: str) -> Done:
    """The command in a process of its own, as a user starts it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TINYMEM_")}
    paths = os.pathsep.join(path for path in sys.path if path)  # a checkout that is not installed, too
    done = subprocess.run(
        [sys.executable, "-m", "tinymem.cli", *args],
        cwd=cwd,
        env=kept | {"PYTHONPATH": paths, "COLUMNS": "80"} | env,
        input=input,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


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
