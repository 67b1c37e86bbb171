"""The command line on memories in PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run
from commands import tinymem as tinymem  # the fixture
from postgres_server import ESCAPED, PASSWORD, PostgresServer

from tinymem import HierarchicalMemory, MessageStep
from tinymem.archive.folders import namespaces

pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")


@pytest.fixture(autouse=True)
def namespace(tinymem: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new namespace, which commands are about."""
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TINYMEM_NAMESPACE", tmp_path.name)
    return tmp_path.name


@pytest.mark.slow
def test_every_command_works_on_an_address(
    tinymem: Run, postgres: PostgresServer, namespace: str, tmp_path: Path
) -> None:
    url = postgres.url()
    said = []

    def run(*args: str, status: int = 0) -> str:
        done = tinymem(*args, "--path", url)
        assert done.status == status, done
        said.append(done.out + done.err)
        return done.out + done.err

    shown = f"postgresql://tinymem@127.0.0.1:{postgres.port}/postgres"
    assert shown in run("ingest", "--sample")
    steps = int(json.loads(run("show", "--json"))["steps"])
    assert steps > 100
    assert "8417" in run("recall", "which port has the API", "-k", "1")
    for command in (["context", "why did the tills fail"], ["explain", "tills"], ["get", "3"], ["show"]):
        assert run(*command)
    assert run("doctor").startswith(f"Sound: {steps} steps")
    assert "CREATE TABLE passages" in tinymem("schema").out
    assert run("scrub").startswith("The tables take ")
    assert namespace in run("namespaces").splitlines()
    assert f"Exported {steps} steps" in run("export", "memory.jsonl")
    assert f"Imported {steps} steps" in run("import", "memory.jsonl", "--namespace", f"{namespace} copy")
    assert run("forget", "--type", "task", "--yes").startswith("Forgot")
    assert run("retain", "--max-steps", "100", "--yes").startswith("Forgot")
    assert run("rebuild").startswith("There is no index to make")
    assert "Embedded" in run("reindex", "--embedder", "hashing:64")
    assert f"copy' of {shown}." in run("forget", "--everything", "--yes", "--namespace", f"{namespace} copy")
    assert f"{namespace} copy" not in namespaces(url)
    assert "there is no memory at" in run("show", "--namespace", f"{namespace} copy", status=2)
    assert not [text for text in said if PASSWORD in text or ESCAPED in text]


def test_a_memory_is_copied_to_a_database_and_back(tinymem: Run, postgres: PostgresServer, namespace: str) -> None:
    with HierarchicalMemory("memory", namespace=namespace, embedder="hashing") as memory:
        memory.add(MessageStep("user", "The ladder is behind the shed."))
    done = tinymem("migrate", "--from", "memory", "--to", postgres.url())
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{namespace}: 1 step in both places.\nThe copy is embedded when it is opened.\n"
    done = tinymem("migrate", "--from", postgres.url(), "--to", "back", "--namespace", namespace, "--json")
    assert [one["namespace"] for one in json.loads(done.out)] == [namespace]
    for place in ("memory", "back", postgres.url()):
        tinymem("export", f"{len(place)}.jsonl", "--path", place)
    assert len({file.read_bytes() for file in Path().glob("*.jsonl")}) == 1
    assert len([*Path().glob("*.jsonl")]) == 3
