"""The way to the process that keeps a memory open: where it listens, how it is asked and started.

An agent's turn waits for it. So it imports nothing but the standard library, and of that only what it needs at once.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from stat import S_ISDIR

from tinymem import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from typing import Any

__all__ = ["ask", "socket_of", "start"]

PRIME = 2**61 - 1  # a remainder by it tells paths apart; hashlib takes a sixth of the time that a hook has to load
LONGEST_FOLDER = 80  # bytes: the name of a socket has 104 at most on some systems


def socket_of(path: str) -> str | None:
    """Return where the process of a memory listens; None where there are no such sockets, or the place is not safe."""
    if not hasattr(os, "getuid"):
        return None
    name = f"tinymem-{os.getuid()}"
    folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp", name)
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        folder = f"/tmp/{name}"
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        about = os.lstat(folder)
    except OSError:
        return None
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or not S_ISDIR(about.st_mode):
        return None  # somebody else could answer there
    known_by = os.fsencode(f"{sys.executable}\n{path if '://' in path else os.path.realpath(path)}")
    return f"{folder}/{int.from_bytes(known_by, 'big') % PRIME:016x}.sock"


def ask(request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """Ask the process of a memory; None where there is none, or it takes longer."""
    place = socket_of(request["path"])
    if place is None or not os.path.exists(place):
        return None
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(place)
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as stream:  # the answer comes at once, whole
                found = json.loads(stream.read())
    except TimeoutError:  # it goes on with what it was asked
        return {"out": "", "error": ""}
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def start(path: str, embedder: str | None) -> subprocess.Popen[bytes] | None:
    """Start the process of a memory, which ends by itself when it is not asked for a while."""
    import subprocess

    if socket_of(path) is None:
        return None
    command = [sys.executable, "-m", "tinymem.runs.hooks.warm", path, embedder or ""]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")
