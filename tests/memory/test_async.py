"""The memories of asyncio programs: the same calls awaited, on one thread per memory, cancelled ones too."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import python, said
from work import PATIENCE

from tinymem import AsyncHierarchicalMemory, AsyncMemories, Callbacks, HierarchicalMemory, Memories
from tinymem.errors import ClosedError, InputError, NotAMemoryError
from tinymem.steps.types import Step

OPTIONS: dict[str, Any] = {"embedder": "hashing:64", "store": "exact"}
METHODS_HERE = {"steps", "tokens", "system_prompt", "action_count", "scratchpad"}  # properties without await
BELOW = {"short_term", "medium_term", "long_term"}

open_memory = partial(AsyncHierarchicalMemory, embedder="hashing:64", store="exact")
asked: ContextVar[str] = ContextVar("asked", default="nobody")


def texts(memory: HierarchicalMemory) -> list[str]:
    return [step.text for step in memory.history()]


def calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tinymem-calls")]


class Gate:
    """A call that has begun, and goes on when it is let."""

    def __init__(self) -> None:
        self._begun, self._open = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> str:
        self._begun.set()
        assert self._open.wait(PATIENCE)
        return "through"

    async def begun_by(self, call: Awaitable[Any]) -> asyncio.Future[Any]:
        """Make the call, and go on once it has begun."""
        task = asyncio.ensure_future(call)
        while not self._begun.is_set():
            await asyncio.sleep(0.001)
        return task

    def open(self) -> None:
        self._open.set()


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test on a loop of its own; afterwards no thread is left."""

    @wraps(test)
    def run(*given: Any, **fixtures: Any) -> None:
        asyncio.run(test(*given, **fixtures))
        for thread in calls():
            thread.join(PATIENCE)
        assert calls() == []

    return run


# -- the same calls ---------------------------------------------------------------------------------------------------


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_there_are_the_same_names_with_and_without_await() -> None:
    with HierarchicalMemory(**OPTIONS) as memory:
        there = public(type(memory)) | {name for name in vars(memory) if not name.startswith("_")}
    assert there - public(AsyncHierarchicalMemory) == BELOW
    assert public(AsyncHierarchicalMemory) - there == {"memory", "over", "run"}
    assert public(AsyncMemories) - public(Memories) == {"memories", "over", "path", "run"}
    assert public(Memories) <= public(AsyncMemories)


@pytest.mark.parametrize(
    ("kind", "its_own"), [(AsyncHierarchicalMemory, HierarchicalMemory), (AsyncMemories, Memories)], ids=["one", "many"]
)
def test_the_signatures_are_the_same_and_every_call_is_awaited(kind: type, its_own: type) -> None:
    assert inspect.signature(kind).parameters == inspect.signature(its_own).parameters
    for name in public(kind) & public(its_own):
        call, sync = getattr(kind, name), getattr(its_own, name)
        if isinstance(sync, property):
            assert inspect.iscoroutinefunction(call) == (name in METHODS_HERE), name
            assert name not in METHODS_HERE or [*inspect.signature(call).parameters] == ["self"]
            continue
        assert [*inspect.signature(call).parameters.values()] == [*inspect.signature(sync).parameters.values()], name
        is_async = inspect.iscoroutinefunction(call) or name in ("history", "open")
        assert is_async and call.__doc__, name


@awaited
async def test_a_memory_is_used_as_without_await(tmp_path: Path) -> None:
    async with open_memory(tmp_path, namespace="ann", max_tokens=900, system_prompt="Be brief.") as memory:
        assert (memory.path, memory.namespace, memory.max_tokens) == (tmp_path, "ann", 900)
        assert (memory.window_tokens, memory.shares.window, memory.closed) == (450, 0.5, False)
        assert (await memory.system_prompt(), await memory.action_count()) == ("Be brief.", 0)
        first = await memory.add_message("user", "The port is 8443.", session="s1")
        (await memory.scratchpad()).observe("It rains.")
        assert "It rains." in str((await memory.context("Which port?", max_tokens=400)).messages)
        assert [step.text async for step in memory.history("s1", limit=1)] == ["The port is 8443."]
        assert await memory.forget(first.id) == 1
    assert memory.closed and "closed" in repr(memory)
    await AsyncHierarchicalMemory.forget_namespace(tmp_path, "ann")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


@awaited
async def test_a_long_history_comes_whole_and_in_order() -> None:
    async with open_memory() as memory:
        await memory.archive([said(str(number)) for number in range(1_201)])
        assert [step.text async for step in memory.history()] == [str(number) for number in range(1_201)]


@awaited
async def test_it_may_be_opened_by_await_and_must_be_opened(tmp_path: Path) -> None:
    memory = open_memory(tmp_path)
    assert "not open" in repr(memory)
    with pytest.raises(ClosedError, match="use `async with`"):
        await memory.stats()
    assert await memory is memory
    async with memory:
        await memory.add(said("Hello."))
    with pytest.raises(ClosedError, match="open it again"):
        await memory.stats()
    await memory.close()
    await open_memory(tmp_path).close()  # never opened


@awaited
async def test_what_a_call_raises_comes_unchanged_and_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        await open_memory(tmp_path, max_tokens=0)
    with pytest.raises(NotAMemoryError):
        await open_memory(tmp_path / "none", create=False)
    async with open_memory() as memory:
        with pytest.raises(InputError) as raised:
            await memory.run(_refuse)
        assert raised.value is REFUSAL


REFUSAL = InputError("no")


def _refuse(memory: HierarchicalMemory) -> None:
    raise REFUSAL


@awaited
async def test_tools_are_awaited_on_the_thread_of_the_memory() -> None:
    names: list[str] = []
    watched = Callbacks(on_recall=lambda recall: names.append(threading.current_thread().name))
    async with open_memory(callbacks=watched) as memory:
        await memory.add(said("The port is 8443."))
        search, read = await memory.tools()
        assert "8443" in await search.acall(query="Which port?") and "8443" in await read.acall(id="#1")
        assert await search.acall() == "Give query."
        assert [name.partition("_")[0] for name in names] == ["tinymem-calls"]
    assert (await search.acall(query="port")).startswith("The memory cannot be read")


# -- one thread per memory --------------------------------------------------------------------------------------------


@awaited
async def test_all_calls_of_a_memory_run_on_one_thread_in_order() -> None:
    with HierarchicalMemory(**OPTIONS) as memory:
        wrapped = [AsyncHierarchicalMemory.over(memory) for _ in range(3)]
        ids = await asyncio.gather(*(one.run(lambda _: threading.get_ident()) for one in wrapped * 5))
        assert len({*ids}) == 1 and threading.get_ident() not in ids
        await asyncio.gather(*(wrapped[at % 3].add(said(str(at))) for at in range(30)))
        assert texts(memory) == [str(at) for at in range(30)]
        assert all(one.memory is memory for one in wrapped)


@awaited
async def test_context_variables_are_carried_over() -> None:
    async def named(memory: AsyncHierarchicalMemory, name: str) -> str:
        asked.set(name)
        return await memory.run(lambda _: asked.get())

    async with open_memory() as memory:
        assert await asyncio.gather(*(named(memory, name) for name in ("ann", "bob", "cid"))) == ["ann", "bob", "cid"]


# -- what is cancelled ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_begun", [True, False])
@awaited
async def test_a_call_whose_task_is_cancelled_is_made_in_its_turn_and_nobody_waits_for_it(has_begun: bool) -> None:
    gate = Gate()
    async with open_memory(callbacks=Callbacks(on_step=gate)) as memory:
        before = None if has_begun else await gate.begun_by(memory.run(gate))
        adding = await gate.begun_by(memory.add(said("kept")))
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding  # at once: nothing is open yet
        after = asyncio.create_task(memory.add(said("after")))
        gate.open()
        await asyncio.gather(after, *filter(None, [before]))
        assert texts(memory.memory) == ["kept", "after"]


@awaited
async def test_closing_waits_for_calls_that_wait_and_is_done_though_it_is_cancelled() -> None:
    gate = Gate()
    memory = await open_memory()
    before = await gate.begun_by(memory.run(gate))
    adding = asyncio.create_task(memory.add(said("in time")))
    reading = asyncio.create_task(memory.run(texts))
    await asyncio.sleep(0)
    closing = asyncio.create_task(memory.close())
    await asyncio.sleep(0)
    late = asyncio.create_task(memory.stats())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    gate.open()
    assert await before == "through"
    assert (await adding).text == "in time" and await reading == ["in time"]
    with pytest.raises(ClosedError, match="is closed: open it again"):
        await late
    assert memory.closed


@awaited
async def test_an_opening_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    gate = Gate()

    def slow(text: str) -> str:
        gate()
        return text

    opening = await gate.begun_by(open_memory(tmp_path, redact=slow, system_prompt="Be brief.").__aenter__())
    opening.cancel()
    await asyncio.sleep(0)  # it waits for the closing now, which comes behind
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await opening
    HierarchicalMemory.forget_namespace(tmp_path, "default")  # which is refused while it is open


@pytest.mark.slow
def test_the_end_of_a_program_waits_for_an_add_and_for_no_thread(tmp_path: Path) -> None:
    program = """
import asyncio, sys, threading, time
from tinymem import AsyncHierarchicalMemory, Callbacks, MessageStep
loop, begun = asyncio.new_event_loop(), threading.Event()
slow = Callbacks(on_step=lambda step: begun.set() or time.sleep(0.2))
async def until_begun():
    while not begun.is_set():
        await asyncio.sleep(0)
memory = AsyncHierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact", callbacks=slow)
loop.run_until_complete(memory.__aenter__())
tasks = [loop.create_task(memory.add(MessageStep("user", str(at)))) for at in range(3)]
loop.run_until_complete(until_begun())
sys.exit(7)
"""
    process = python(program, tmp_path)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 7
    with HierarchicalMemory(tmp_path, **OPTIONS) as memory:
        assert texts(memory) == ["0", "1", "2"]


# -- many namespaces --------------------------------------------------------------------------------------------------


def open_memories(path: Path, **more: Any) -> AsyncMemories:
    return AsyncMemories(path, **OPTIONS, **more)


@awaited
async def test_namespaces_are_lent(tmp_path: Path) -> None:
    async def say(memories: AsyncMemories, name: str) -> None:
        async with memories.open(name) as memory:
            await memory.add(said(f"I am {name}."))

    async with open_memories(tmp_path, max_open=3) as memories:
        assert memories.path == tmp_path
        await asyncio.gather(*(say(memories, f"n{at % 8}") for at in range(40)))
        assert await memories.namespaces() == [f"n{at}" for at in range(8)]
        assert len(memories) <= 3
        async with memories.open("n3") as memory:
            assert (await memory.stats()).steps == 5 and [s.text for s in await memory.steps()] == ["I am n3."] * 5


@awaited
async def test_who_waits_for_one_holds_up_nobody_and_gives_it_back_though_cancelled(tmp_path: Path) -> None:
    gate, slowly = Gate(), {"ann": False}

    def slow(text: str) -> str:
        return gate() if slowly["ann"] else text

    async def lent(memories: AsyncMemories, name: str) -> str:
        async with memories.open(name) as memory:
            return memory.namespace

    async with open_memories(tmp_path, max_open=1, redact=slow, system_prompt="Be brief.") as memories:
        assert await lent(memories, "bob") == "bob"
        async with memories.open("bob"):
            slowly["ann"] = True
            opening = await gate.begun_by(lent(memories, "ann"))
            slowly["ann"] = False
            assert await lent(memories, "bob") == "bob" and await lent(memories, "cid") == "cid"
            opening.cancel()
            await asyncio.sleep(0)
            gate.open()
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert await lent(memories, "dan") == "dan" and len(memories) == 1, "what nobody wanted was given back"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from tinymem import AsyncHierarchicalMemory, MessageStep
from tinymem.errors import StorageError
memory = AsyncHierarchicalMemory(sys.argv[1], embedder="hashing:64", store="exact")
async def add(memory):
    await memory.add(MessageStep("user", "Hello."))
async def begin():
    await memory
    await add(memory)
asyncio.run(begin())
if not (child := os.fork()):
    try:
        asyncio.run(add(memory))
    except StorageError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
asyncio.run(memory.close())
"""
    out, _ = python(program, tmp_path).communicate(timeout=PATIENCE)
    assert out.split() == ["7"]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["add", "read"]), st.booleans()), max_size=12), st.randoms())
@awaited
async def test_what_is_cancelled_is_there_whole_or_not_at_all(work: list[tuple[str, bool]], random: Any) -> None:
    async with open_memory() as memory:
        tasks: list[asyncio.Task[Any]] = []
        for at, (kind, _) in enumerate(work):
            call: Awaitable[Any] = memory.add(said(str(at))) if kind == "add" else memory.stats()
            tasks.append(asyncio.ensure_future(call))
            for _ in range(random.randrange(3)):
                await asyncio.sleep(0)
        for task, (_, is_cancelled) in zip(tasks, work, strict=True):
            if is_cancelled:
                task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        held = [int(step.text) async for step in memory.history()]
        sure = {at for at, result in enumerate(done) if isinstance(result, Step)}
        tried = {at for at, (kind, _) in enumerate(work) if kind == "add"}
        assert held == sorted(held) and sure <= {*held} <= tried
        assert {type(one) for one in done if isinstance(one, BaseException)} <= {asyncio.CancelledError}
