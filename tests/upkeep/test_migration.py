"""Memories that are copied from a folder to a database and back."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest
from memories import python
from postgres_server import PostgresServer

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.errors import InputError
from tinymem.steps.step import Message
from tinymem.upkeep import Migrated, doctor, export_memory, migrate

open_memory = partial(HierarchicalMemory, store="exact")
pytest.importorskip("psycopg", reason="psycopg is not installed (extra: postgres)")


def filled(path: str | Path, namespace: str, steps: int = 30) -> None:
    with open_memory(path, namespace=namespace, window_tokens=300) as memory:
        memory.add(TaskStep(task="Ship version 2.4", id="task"))
        for at in range(steps):
            text = f"Attempt {at}: the build of module {at} failed on Windows because of a lock. " * 3
            memory.add(ActionStep(thought=text, tool_name="bash", observation="exit 1", id=f"step-{at}"))
        memory.add_messages([{"role": "user", "content": "The staging server is at 10.0.0.7."}], session="s1")
        memory.add(MessageStep("user", "Ann\0 \x1a likes pears.", id="ann", metadata={"user": "ann"}))
        memory.forget("step-1")
        memory.mark("step-2")
        memory.scratchpad.observe("the port is 8443")
        memory.flush()


def exported(path: str | Path, namespace: str, file: Path) -> bytes:
    export_memory(path, file, namespace=namespace)
    return file.read_bytes()


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TINYMEM_CACHE", str(tmp_path / "cache"))
    return tmp_path.name


def contexts(place: str | Path, namespace: str) -> tuple[str, list[Message]]:
    with open_memory(place, namespace=namespace, window_tokens=300, create=False) as memory:
        assert memory.recall("pears", max_tokens=300, where={"user": "ann"}).items
        return memory.recall("Where is staging?", max_tokens=500).text, memory.context().messages


def test_a_memory_goes_to_a_database_and_back(postgres: PostgresServer, tmp_path: Path, namespace: str) -> None:
    places: list[str | Path] = [tmp_path / "one", postgres.url(), tmp_path / "two"]
    filled(places[0], namespace)
    seen: list[tuple[int, int | None]] = []
    there = migrate(places[0], places[1], namespace=namespace, progress=lambda *done: seen.append(done))
    assert there == [Migrated(namespace, 32)]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (32, 32)
    assert migrate(places[1], places[2], namespace=namespace) == there
    assert len({exported(place, namespace, tmp_path / "file") for place in places}) == 1
    first, *others = [contexts(place, namespace) for place in places]
    assert others == [first, first]
    assert migrate(places[0], places[1], namespace=namespace) == there, "it is there already"


def test_a_folder_is_copied_while_it_is_in_use(tmp_path: Path, namespace: str) -> None:
    filled(tmp_path / "one", namespace)
    with open_memory(tmp_path / "one", namespace=namespace) as memory:
        (copied,) = migrate(tmp_path / "one", tmp_path / "two")
        assert copied.steps == memory.stats().steps
    files = [exported(tmp_path / name, namespace, tmp_path / "file") for name in ("one", "two")]
    assert files[0] == files[1]
    assert contexts(tmp_path / "one", namespace) == contexts(tmp_path / "two", namespace)
    assert doctor(tmp_path / "two", namespace).sound


KILLED = """
import os, signal, sys
from tinymem.upkeep import migrate
calls = int(sys.argv[4])
def count(frame, event, argument):
    global calls
    calls -= frame.f_code.co_filename.endswith(("migration.py", "database.py", "folders.py", "transactions.py"))
    if calls <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(count)
migrate(sys.argv[1], sys.argv[2], namespace=sys.argv[3])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("to_database", [True, False])
def test_a_copy_that_is_killed_is_whole_or_not_there(
    to_database: bool, postgres: PostgresServer, tmp_path: Path, namespace: str
) -> None:
    filled(tmp_path / "one", namespace, 3)
    for calls in (4, 22, 40, 100):
        target: str | Path = postgres.url() if to_database else tmp_path / f"to-{calls}"
        process = python(KILLED, tmp_path / "one", target, namespace, calls)
        process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL
        with open_memory(target, namespace=namespace) as memory:  # as a user does who does not know
            assert memory.stats().steps in (0, 5)
        assert migrate(tmp_path / "one", target, namespace=namespace)[0].steps == 5
        HierarchicalMemory.forget_namespace(target, namespace)


def test_a_target_that_somebody_has_open_follows_the_copy(tmp_path: Path, namespace: str) -> None:
    filled(tmp_path / "one", namespace, 3)
    with open_memory(tmp_path / "two", namespace=namespace) as memory:
        assert migrate(tmp_path / "one", tmp_path / "two")[0].steps == 5
        assert memory.add(MessageStep("user", "another")).step_number == 7
        assert len([*memory.history()]) == 6


def test_a_copy_that_was_changed_is_not_made_again(tmp_path: Path, namespace: str) -> None:
    filled(tmp_path / "one", namespace, 3)
    migrate(tmp_path / "one", tmp_path / "two")
    with open_memory(tmp_path / "two", namespace=namespace) as memory:
        memory.add(MessageStep("user", "another"))
    with pytest.raises(InputError, match="forget that one first"):
        migrate(tmp_path / "one", tmp_path / "two")
