"""The command `tinymem-hook`: asks the process that keeps the memory open, so that an agent's turn hardly waits.

It imports nothing but the standard library until that process does not answer. Then a prompt goes on without what is
recalled, the process is started for the next time, and the other events are answered here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__ = ["ask", "main", "socket_of", "start"]

LONGEST = 1_000_000  # characters of an event
LONGEST_FOLDER = 80  # bytes: the name of a socket has 104 at most on some systems
PATIENCE = {"prompt": 0.1}  # seconds that an event waits for its answer,
ELSE = 5.0  # and other events; what takes longer is done without the agent
DEFAULT_PATH = "~/.tinymem"


def main() -> None:
    """Answer a hook: print what the agent is to read. Nothing that goes wrong stops the agent."""
    begun = time.monotonic()
    try:
        request = _request(sys.argv[1:])
        patience = PATIENCE.get(request["event"], ELSE)
        found = ask(request, max(0.01, patience - (time.monotonic() - begun)))
        if found is None:
            if request["event"] != "session-end":
                start(request["path"], request["embedder"])
            if request["event"] == "prompt":
                return
            from tinymem.runs.hooks.warm import answer_here

            found = answer_here(request)
        sys.stdout.write(found["out"])
        sys.stdout.flush()
        if found["error"]:
            sys.stderr.write(f"tinymem: {found['error']}\n")
            raise SystemExit(1)
    except SystemExit:
        raise
    except Exception as error:  # exit status 2 would keep the agent from going on
        sys.stderr.write(f"tinymem: {type(error).__name__}\n")
        raise SystemExit(1) from None


def _request(arguments: list[str]) -> dict[str, Any]:
    import argparse

    parser = argparse.ArgumentParser(prog="tinymem-hook", description="Answer a hook of a coding agent.")
    add = parser.add_argument
    add("event", help="session-start, prompt, pre-compact, stop or session-end")
    add("--path", default=os.environ.get("TINYMEM_PATH", DEFAULT_PATH), help=f"the memory (default: {DEFAULT_PATH})")
    add("--namespace", help="the namespace; by default that of the repository which the agent works in")
    add("--per-worktree", action="store_true", help="each worktree of the repository has a namespace of its own")
    add("--also", action="append", default=[], metavar="NAMESPACE", help="a namespace that is read beside it")
    add("--max-tokens", type=int, help="the most tokens of what is printed")
    add("--embedder", help="the embedder of a new memory")
    add("--json", action="store_true", help="print JSON, as Gemini CLI reads it, and not the text")
    given = vars(parser.parse_args(arguments))
    given["path"] = os.path.expanduser(given["path"])
    return {**given, "folder": os.getcwd(), "input": sys.stdin.read(LONGEST + 1)}


def socket_of(path: str) -> Path | None:
    """Return where the process of a memory listens; None where there are no such sockets, or the place is not safe."""
    import hashlib
    import socket

    if not hasattr(socket, "AF_UNIX"):
        return None
    own = f"tinymem-{os.getuid()}"
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / own
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        folder = Path("/tmp") / own
    try:
        folder.mkdir(0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return None
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or not folder.is_dir() or folder.is_symlink():
        return None  # somebody else could answer there
    known_by = f"{sys.executable}\n{path if '://' in path else os.path.realpath(path)}"
    return folder / f"{hashlib.sha256(known_by.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.sock"


def ask(request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """Ask the process of a memory; None where there is none, or it takes longer."""
    import socket

    if (place := socket_of(request["path"])) is None or not place.exists():
        return None
    until = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(place))
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(65_536):
                parts.append(part)
                connection.settimeout(max(0.001, until - time.monotonic()))
        found = json.loads(b"".join(parts))
    except TimeoutError:  # it goes on with what it was asked
        return {"out": "", "error": ""}
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def start(path: str, embedder: str | None) -> subprocess.Popen[bytes] | None:
    """Start the process of a memory, which ends by itself when it is not asked for a while."""
    if socket_of(path) is None:
        return None
    command = [sys.executable, "-m", "tinymem.runs.hooks.warm", path, *([embedder] if embedder else [])]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")


if __name__ == "__main__":
    main()
