"""Memories: many namespaces in one process, few of them open, and nothing that crosses from one to another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from memories import python
from strategies import MODERATE

from tinymem import ConversationMemory, FinalAnswerStep, HierarchicalMemory, Memories, MessageStep
from tinymem.archive import namespaces
from tinymem.errors import ClosedError, InputError, NotAMemoryError, StorageError

OPTIONS: dict[str, Any] = {"embedder": "hashing:64", "store": "exact"}
open_memories = partial(Memories, embedder="hashing:64", store="exact")


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Memories]:
    with open_memories(tmp_path / "memories", max_open=2) as opened:
        yield opened


def say(memories: Memories, name: str, text: str) -> None:
    with memories.open(name) as memory:
        memory.add(MessageStep("user", text))


# -- lending ----------------------------------------------------------------------------------------------------------


def test_a_namespace_stays_open_until_room_is_needed(memories: Memories) -> None:
    held = []
    for name in ("ann", "bob", "ann", "cid"):
        with memories.open(name) as memory:
            held.append(memory)
        assert not memory.closed and len(memories) <= 2
    ann, bob, again, cid = held
    assert ann is again and bob.closed and not ann.closed and not cid.closed, "the least recently used one made room"


def test_those_in_use_stay_open_above_the_limit_which_holds_again_once_they_are_given_back(memories: Memories) -> None:
    with memories.open("ann") as ann, memories.open("ann") as again, memories.open("bob"), memories.open("cid") as cid:
        assert ann is again and len(memories) == 3
        say(memories, "dan", "Hello.")
        assert len(memories) == 3 and not ann.closed, "the fourth is closed as soon as it is given back"
        ann.add(MessageStep("user", "Still here."))
    assert len(memories) == 2 and cid.closed, "the first that was given back"


def test_what_fails_to_open_takes_no_place(memories: Memories) -> None:
    names: list[Any] = ["x" * 300, None, 5, "", ["ann"]]
    for name in names:
        with pytest.raises(InputError, match=r"too long|namespace must be a string"):
            say(memories, name, "Hello.")
    with pytest.raises(ZeroDivisionError), memories.open("ann"):
        raise ZeroDivisionError
    with memories.open("bob") as memory:
        memory.close()
    for name in ("ann", "bob", "cid"):  # what failed inside, or its user closed, is given back too
        say(memories, name, "Hello.")
    assert len(memories) == 2


def test_closing_closes_all_now_or_when_they_are_given_back(tmp_path: Path) -> None:
    memories = open_memories(tmp_path)
    say(memories, "bob", "Hello.")
    with memories.open("ann") as ann:
        memories.close()
        memories.close()
        assert len(memories) == 1 and not ann.closed
        ann.add(MessageStep("user", "To the end."))
        for name in ("cid", "ann"):
            with pytest.raises(ClosedError, match="closed: open them again"):
                say(memories, name, "Hello.")
    assert ann.closed and len(memories) == 0 and repr(memories).endswith("closed>")
    with HierarchicalMemory(tmp_path, namespace="ann", **OPTIONS) as memory:
        assert memory.stats().steps == 1


def test_threads_share_what_is_open_and_no_namespace_is_open_twice(tmp_path: Path) -> None:
    names = [f"user {n}" for n in range(9)]
    with open_memories(tmp_path, max_open=4) as memories:

        def work(worker: int) -> None:
            for i in range(12):
                name = names[(worker * 7 + i * 5) % len(names)]
                with memories.open(name) as memory:
                    memory.add(MessageStep("user", f"{worker} says {i} to {name}."))
                    assert {step.text.split(" to ")[1] for step in memory.steps} == {f"{name}."}

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        assert len(memories) == 4
        total = 0
        for name in names:
            with memories.open(name) as memory:
                assert [step.step_number for step in memory.history()] == [*range(1, memory.stats().steps + 1)]
                total += memory.stats().steps
        assert total == 6 * 12


# -- exact names ------------------------------------------------------------------------------------------------------


def test_names_that_look_alike_are_others(memories: Memories) -> None:
    names = ["Ann", "ann", "ANN", "ann ", "é", "e\u0301", "ﬁ", "fi", "a/b", "a%2Fb", "..", ".", "ann\u200b", "аnn"]
    for name in names:
        say(memories, name, f"I am {name!r}.")
    assert memories.namespaces() == sorted(names)
    for name in names:
        with memories.open(name) as memory:
            assert [step.text for step in memory.short_term.steps] == [f"I am {name!r}."]


@pytest.mark.parametrize("how", ["renamed", "linked", "copied"])
def test_a_folder_under_another_name_is_refused(tmp_path: Path, how: str) -> None:
    """As where a file system takes `Ann` for `ann`."""
    ways: dict[str, Callable[[Path, Path], object]] = {
        "renamed": Path.rename, "linked": lambda old, new: new.symlink_to(old), "copied": shutil.copytree
    }  # fmt: skip
    with open_memories(tmp_path) as memories:
        say(memories, "ann", "The code is 4711.")
    ways[how](tmp_path / "ann", tmp_path / "Ann")
    for _ in range(2):
        with pytest.raises(StorageError, match="belongs to another namespace than 'Ann'"):
            HierarchicalMemory(tmp_path, namespace="Ann", **OPTIONS)


def test_only_what_is_a_namespace_is_listed(tmp_path: Path) -> None:
    assert namespaces(tmp_path / "nothing") == [] == namespaces(tmp_path)
    with open_memories(tmp_path / "memory") as memories:
        say(memories, "日本", "Hello.")
        (Path(memories.path) / "notes").mkdir()
        (Path(memories.path) / "%zz").mkdir()
        (Path(memories.path) / "%zz" / "journal.db").write_text("", "utf-8")
        (Path(memories.path) / "file").write_text("", "utf-8")
        assert memories.namespaces() == ["日本"]
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(NotAMemoryError):
        namespaces(tmp_path / "file")


# -- nothing crosses --------------------------------------------------------------------------------------------------

NAMES = ["ann", "Ann", "ann/b"]
WORDS = {"ann": "quince", "Ann": "medlar", "ann/b": "loquat"}
names = st.sampled_from(NAMES)


class Crossing(RuleBasedStateMachine):
    """Three namespaces, two of them open; each says its own word, and must never see another's."""

    folder: Path

    @initialize()
    def begin(self) -> None:
        self.path = self.folder / str(len([*self.folder.iterdir()]))
        self.memories = open_memories(self.path, max_open=2, max_tokens=300)
        self.held: dict[str, dict[str, str]] = {name: {} for name in NAMES}  # id -> session

    def mine(self, name: str, shown: object) -> None:
        text = str(shown)
        assert not any(word in text for other, word in WORDS.items() if other != name), (name, text[:500])

    @rule(name=names, session=st.sampled_from(["mon", "tue"]), count=st.integers(1, 12), ends=st.booleans())
    def add(self, name: str, session: str, count: int, ends: bool) -> None:
        with self.memories.open(name) as memory:
            said = [
                MessageStep("user", f"Box {n} of fruit holds {WORDS[name]}.", session=session) for n in range(count)
            ]
            steps = memory.add_steps([*said, *([FinalAnswerStep(f"All {WORDS[name]}.", session=session)] * ends)])
            self.held[name].update((step.id, session) for step in steps)

    @rule(name=names)
    def archive_and_note(self, name: str) -> None:
        with self.memories.open(name) as memory:
            memory.scratchpad.observe(f"likes {WORDS[name]}")
            memory.scratchpad.store("fruit", WORDS[name])
            message = ConversationMemory(memory=memory).add_message("user", f"More {WORDS[name]}!", session="wed")
            self.held[name][message.nanoid] = "wed"

    @rule(name=names, asked=st.sampled_from([*WORDS.values(), "fruit in box 3", "All"]))
    def ask(self, name: str, asked: str) -> None:
        with self.memories.open(name) as memory:
            context, recall = memory.context(asked), memory.recall(asked, 500)
            conversation = ConversationMemory(memory=memory)
            shown = [context.messages, recall.text, recall.items, [*memory.medium_term], memory.scratchpad.to_context()]
            shown += [conversation.to_messages(400), conversation.get_history(400), [*conversation]]
            shown += [conversation.search(asked).text]
            shown += [conversation.tool(query="fruit")]
            self.mine(name, shown)
            assert {item.step.id for item in recall.items} <= self.held[name].keys()

    @rule(name=names, other=names)
    def get(self, name: str, other: str) -> None:
        with self.memories.open(name) as memory:
            for id in [*self.held[other]][:3]:
                if other == name:
                    assert memory.get(id).id == id
                    continue
                with pytest.raises(InputError, match="no step"):
                    memory.get(id)
                assert id not in ConversationMemory(memory=memory).tool(nanoid=id)[60:]

    @rule(name=names, other=names)
    def forget_by_id(self, name: str, other: str) -> None:
        wanted = [*self.held[other]][:2]
        is_here = name == other or not wanted
        with self.memories.open(name) as memory, nullcontext() if is_here else pytest.raises(InputError):
            assert (memory.forget(wanted) if wanted else 0) == len(wanted)
        for id in wanted if name == other else ():
            del self.held[name][id]

    @rule(name=names, session=st.sampled_from(["mon", "tue", "wed"]))
    def forget_by_session(self, name: str, session: str) -> None:
        gone = [id for id, kept in self.held[name].items() if kept == session]
        with self.memories.open(name) as memory:
            assert memory.forget(session=session) == len(gone)
        for id in gone:
            del self.held[name][id]

    @invariant()
    def each_counts_its_own(self) -> None:
        if not hasattr(self, "memories"):
            return
        assert len(self.memories) <= 2
        for name, held in self.held.items():
            with self.memories.open(name) as memory:
                assert memory.stats().steps == len(held)
                assert {row.id for row in memory.long_term.journal.rows()} == held.keys()

    def teardown(self) -> None:
        if hasattr(self, "memories"):
            self.memories.close()
            for name in NAMES:
                folder = HierarchicalMemory(self.path, namespace=name, **OPTIONS)
                folder.close()
                files = folder.long_term.folder.rglob("*")
                self.mine(name, [file.read_bytes() for file in files if file.is_file()])


def test_nothing_of_one_namespace_is_returned_counted_or_deleted_by_another(tmp_path: Path) -> None:
    machine = type("Machine", (Crossing,), {"folder": tmp_path})
    run_state_machine_as_test(machine, settings=settings(MODERATE, max_examples=8, stateful_step_count=8))


# -- thousands --------------------------------------------------------------------------------------------------------

THOUSANDS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from tinymem import Memories, MessageStep
path, count, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def files():
    return len(os.listdir("/proc/self/fd"))
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
most, at_tenth = 0, 0
with Memories(path, max_open=16, store="exact") as memories:
    for n in range(count):
        with memories.open(f"user {n}") as memory:
            memory.add_steps([MessageStep("user", f"I am user {n}, and remark {i} is mine.") for i in range(steps)])
            if n % 10 == 0:
                assert f"user {n}," in memory.recall("who am I?", 200).text
        most = max(most, files())
        if n == count // 10:
            at_tenth = resident()
    assert len(memories) == 16 and len(memories.namespaces()) == count
    for n in range(0, count, max(1, count // 50)):
        with memories.open(f"user {n}") as memory:
            assert memory.stats().steps == steps and f"user {n}," in memory.recall("remark 3", 100).text
print(most, at_tenth, resident())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measured as Linux has it")
@pytest.mark.slow
def test_five_hundred_namespaces_in_one_process_take_bounded_files_and_memory(tmp_path: Path) -> None:
    out, _ = python(THOUSANDS, tmp_path, 500, 20).communicate(timeout=900)
    most_files, at_tenth, at_end = map(int, out.split())
    assert most_files < 256 and at_end < 2 * at_tenth
