"""A pgbouncer between the tests and their server, which gives each transaction whatever connection is free."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ports import free_port, wait_for
from postgres_server import PASSWORD, PostgresServer, running_user

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
server_reset_query_always = {resets:d}
default_pool_size = {size}
max_client_conn = 200
"""


def pgbouncer() -> str | None:
    """The program, if Debian's package or another one has installed it."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class Pooler:
    """A pgbouncer on a free port of the loopback interface, which lends `size` connections for single transactions.

    If it `resets` them, nothing that a transaction sets outlives it, however few they are.
    """

    def __init__(self, server: PostgresServer, size: int = 6, resets: bool = True) -> None:
        import psycopg  # an extra

        program = pgbouncer()
        assert program is not None
        self._folder = Path(tempfile.mkdtemp(prefix="tinymem-pgbouncer-"))
        self._folder.chmod(0o755)
        self.port = free_port()
        users, settings = self._folder / "users", self._folder / "pgbouncer.ini"
        users.write_text(f'"owner" "{PASSWORD}"\n', "utf-8")
        with psycopg.connect(server.url(), autocommit=True) as db:  # not "tinymem", whose name is the schema's
            if db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'owner'").fetchone() is None:
                db.execute(f"CREATE ROLE owner LOGIN SUPERUSER PASSWORD '{PASSWORD}'".encode())
        settings.write_text(
            SETTINGS.format(server=server.port, port=self.port, users=users, size=size, resets=resets), "utf-8"
        )
        self._server = server
        self._process = subprocess.Popen(
            [program, "-q", str(settings)], user=running_user(), cwd=self._folder, stderr=subprocess.DEVNULL
        )
        wait_for(self.port)

    def url(self, database: str = "postgres") -> str:
        return self._server.url(database, user="owner").replace(str(self._server.port), str(self.port))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
