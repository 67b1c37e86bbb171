"""What PostgreSQL's own backups bring back."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from memories import sentences
from postgres_server import PostgresServer, binaries

from tinymem import HierarchicalMemory, MessageStep
from tinymem.errors import StorageError
from tinymem.upkeep import doctor, export_memory

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")

from tinymem.stores.journals import shared_names  # noqa: E402


@pytest.fixture
def kept(fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a database of two namespaces, and of a role that may use it."""
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    url, name = fresh, fresh.rpartition("/")[2]
    for namespace, count in (("large", 150), ("small", 5)):
        with HierarchicalMemory(url, namespace=namespace, window_tokens=200) as memory:
            memory.add_steps([MessageStep("user", text) for text in sentences(count)])
            memory.flush()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'word'")
        db.execute("CALL tinymem.allow(%s, 'small')", (name,))
    yield url
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP DATABASE IF EXISTS {name}_again WITH (FORCE)")
        db.execute(f"DROP OWNED BY {name}")
        db.execute(f"DROP ROLE {name}")


def program(name: str) -> str:
    folder = binaries()
    if folder is None or not (folder / name).exists():
        pytest.skip(f"{name} is not installed")
    return str(folder / name)


def exported(url: str) -> list[str]:
    """The exports of both namespaces."""
    files = io.StringIO(), io.StringIO()
    for file, namespace in zip(files, ("large", "small"), strict=True):
        export_memory(url, file, namespace=namespace)
    return [file.getvalue() for file in files]


def test_a_dump_brings_back_all_memories(kept: str, postgres: PostgresServer, tmp_path: Path) -> None:
    name = kept.rpartition("/")[2]
    again = f"{name}_again"
    with psycopg.connect(postgres.url(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {again}")
    dump = tmp_path / "dump"
    subprocess.run([program("pg_dump"), "--format=custom", f"--file={dump}", kept], check=True)
    subprocess.run([program("pg_restore"), "--exit-on-error", f"--dbname={postgres.url(again)}", dump], check=True)
    assert exported(postgres.url(again)) == exported(kept)
    assert doctor(postgres.url(again), "large").sound
    role = postgres.url(again, user=name, password="word")
    assert shared_names(role) == ["small"]
    with HierarchicalMemory(role, namespace="small") as memory:
        memory.add(MessageStep("user", "The restored memory goes on."))
        assert memory.recall("What goes on?", 100).items
    with pytest.raises(StorageError, match="row-level security"):
        HierarchicalMemory(role, namespace="large")


def test_a_base_backup_brings_back_all_memories(kept: str, postgres: PostgresServer) -> None:
    copy = PostgresServer(copy_of=postgres)
    try:
        restored = kept.replace(str(postgres.port), str(copy.port))
        assert exported(restored) == exported(kept)
        assert doctor(restored, "large").sound
    finally:
        copy.stop()
