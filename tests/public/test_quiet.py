"""Logs and the messages of errors: ids, numbers, types and places, and nothing of what a step says."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memories import sqlite
from servers import failure, openai_server

import tinymem.archive.indexing.indexing
import tinymem.errors
from tinymem import (
    ActionStep,
    AgentMemory,
    Callbacks,
    ConversationMemory,
    HierarchicalMemory,
    MessageStep,
    ScratchpadStep,
    Step,
    SystemPromptStep,
    TaskStep,
    WorkingMemory,
    semantic_pruning,
    summarize_strategy,
)
from tinymem.embedders import HashingEmbedder, OpenAIEmbedder
from tinymem.embedders.client import explained
from tinymem.errors import HOUR, EmbedderError, FormatError, new_log_key, warn_hourly
from tinymem.memory import execution_result
from tinymem.memory.scratchpad import MOST_NOTES, KeptScratchpad
from tinymem.messages import steps_from_messages
from tinymem.recall.search import Search

CANARY = "canary7391"
S = f"the word is {CANARY}"


class Failing(HashingEmbedder):
    """Says in its errors what it was given, as libraries do."""

    away = False

    def embed_documents(self, texts: Any) -> Any:
        if self.away:
            raise ValueError(f"cannot embed {texts}")
        return super().embed_documents(texts)


class Gossip:
    """A summarizer that fails in the same way."""

    name = "gossip"

    def summarize(self, steps: Any, max_tokens: int) -> str:
        raise KeyError(str([step.text for step in steps]))


def tell(told: object) -> None:
    raise RuntimeError(f"could not note {told}")


def careless(window: Sequence[Step]) -> list[Step]:
    other = TaskStep(S, id=window[-1].id)  # which is pinned
    return [MessageStep("user", S), *window[1:-1], other, *(MessageStep("user", S) for _ in window)]


def busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in which everything says the word, and much goes wrong."""
    monkeypatch.setattr(tinymem.archive.indexing.indexing, "WAITING", 200)
    embedder = Failing(64)
    callbacks = Callbacks(tell, tell, tell, tell)
    strategy = summarize_strategy(Gossip(), max_tokens=200)
    for name, prune in {"a": None, "b": strategy}.items():
        with HierarchicalMemory(
            path / name, embedder=embedder, store="exact", max_tokens=400, prune_strategy=prune, summarizer=Gossip(),
            system_prompt=S, callbacks=callbacks,
        ) as memory:  # fmt: skip
            for n in range(60):
                embedder.away = n % 3 == 0
                memory.add(MessageStep("user", f"Remark {n}: {S}.", speaker=CANARY, session=f"{CANARY} {n // 20}"))
                memory.add(ActionStep(S, tool_name=CANARY, tool_args={"q": S}, observation=S, metadata={"m": S}))
            embedder.away = False
            memory.context(S)
            memory.recall(S, session=f"{CANARY} 0")
            memory.add(TaskStep(S, pinned=True))
            memory.add(MessageStep("user", f"{S} " * 400, pinned=True))
            memory.short_term.prune(careless)
            for pad in (memory.scratchpad, KeptScratchpad(memory.long_term, tell, None, nullcontext).memory):
                for _ in range(MOST_NOTES + 1):
                    pad.observe(S)
                pad.store("word", S)
                pad.fail(S)
            WorkingMemory(4_000, S, S, memory=memory).add({"thought": S, "action": S, "result": S})
            WorkingMemory(4_000, S, f"Another: {S}", memory=memory)
            conversation = ConversationMemory(memory=memory)
            conversation.tool(query=S)
            embedder.away = True
            memory.add(MessageStep("user", S))
            conversation.tool(query=S)
            embedder.away = False
            memory.forget(session=f"{CANARY} 0")
        conversation.tool(query=S)


FAILURES = [
    "the callback tell failed", "goes on without vectors", "summarizer gossip failed", "stay over the bound",
    "window cannot be kept", "was not finished", "could not be answered",
    "careless took out what must stay", "careless returned", "careless changed more of step",
]  # fmt: skip


def test_no_log_quotes_what_was_said(
    tmp_path: Path, our_log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with our_log.at_level(logging.DEBUG):
        busy(tmp_path, monkeypatch)
    told = "\n".join(logging.Formatter().format(record) for record in our_log.records)  # tracebacks too
    for what in FAILURES:
        assert what in told, what
    assert CANARY not in told and {record.exc_info for record in our_log.records} == {None}


# -- errors -----------------------------------------------------------------------------------------------------------

Bad = Callable[[HierarchicalMemory], object]
word: Any = S
held: Any = {"role": "user", "content": S}


def returning(steps: Any) -> Callable[[Any], Any]:
    return lambda window: steps


# Wrong inside of what is given; an argument that is wrong itself is tried with every call in test_errors_own.
REFUSED: list[Bad] = [
    lambda memory: memory.add_steps([MessageStep("user", S), held]),
    lambda memory: memory.add_messages([{"role": S, "content": S}]),
    lambda memory: memory.add_messages([{"role": "user", "content": {"text": S}}]),
    lambda memory: memory.add_messages([{"role": "user", "content": [S]}]),
    lambda memory: memory.add_messages([{"role": "assistant", "tool_calls": S}]),
    lambda memory: memory.add_messages([{"role": "assistant", "tool_calls": [S]}]),
    lambda memory: memory.add_messages([{"role": "assistant", "tool_calls": [{"function": {"arguments": S}}]}]),
    lambda memory: memory.add(MessageStep("user", S, metadata={"m": {S}})),
    lambda memory: memory.add(MessageStep("user", S, metadata={"m": object(), "n": S})),
    lambda memory: memory.short_term.prune(returning(S)),
    lambda memory: memory.short_term.prune(returning([S])),
    lambda memory: memory.context(max_tokens=20),
    lambda memory: Search(memory.long_term).recall(S, 100, word),
    lambda memory: Step.from_dict({**TaskStep(S).to_dict(), "task": {"t": S}}),
    lambda memory: Step.from_dict({**TaskStep(S).to_dict(), "timestamp": S}),
    lambda memory: Step.from_dict({**TaskStep(S).to_dict(), "type": S}),
    lambda memory: Step.from_dict({**ActionStep(S).to_dict(), "tool_calls": S}),
    lambda memory: steps_from_messages([{"role": "assistant", "tool_calls": [{"id": "1", "function": S}]}]),
    lambda memory: execution_result(ActionStep(S, metadata={"execution": S, "execution_result": S, "result": S})),
    lambda memory: WorkingMemory(4_000, S, S).add({"thought": 5, "action": S}),
    lambda memory: WorkingMemory(4_000, S, S).add({"step_number": S, "thought": S}),
    lambda memory: WorkingMemory(4_000, S, S).add({"thought": S, "result": {"execution_time": S}}),
    lambda memory: WorkingMemory(4_000, S, S).add({"thought": S, "result": {"local_variables": [S]}}),
    lambda memory: AgentMemory(failed_approaches=[{word: S}]),  # type: ignore[list-item]
    lambda memory: AgentMemory.load(json.dumps({"format": 1, "variables": [S]})),
    lambda memory: AgentMemory.load(json.dumps({"format": 1, "variables": {}, "observations": S})),
    lambda memory: semantic_pruning("hashing:64", 100, query=[S])([]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("refused", REFUSED, ids=range(len(REFUSED)))
def test_no_error_quotes_what_was_said(tmp_path: Path, refused: Bad) -> None:
    with HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact") as memory:
        memory.add_steps([MessageStep("user", S), SystemPromptStep(f"{S} " * 20), ScratchpadStep(S)])
        memory.add_messages([held])
        try:
            found = refused(memory)
        except Exception as error:
            assert CANARY not in str(error) and len(str(error)) < 400
        else:
            pytest.fail(f"not refused: {type(found)}")


def test_what_an_embedder_says_of_a_text_is_not_repeated(tmp_path: Path) -> None:
    embedder = Failing(64)
    with HierarchicalMemory(tmp_path, embedder=embedder, store="exact") as memory:
        memory.add(MessageStep("user", S))
        embedder.away = True
        note = memory.recall("x").note
        assert re.search(r"failed on 1 texts: ValueError in test_quiet.py, line \d+$", note) and CANARY not in note


def test_what_a_server_says_of_a_text_is_not_repeated() -> None:
    with openai_server() as server:
        options: dict[str, Any] = {"base_url": server.url, "api_key": "none of it", "max_retries": 0}
        embedder = OpenAIEmbedder("local-model", dimensions=64, **options)
        for quoted, kept in ((f"too long: {S}, more than 8 tokens", False), ("Slow down, please", True)):
            server.faults.append(lambda body, quoted=quoted: failure(400, quoted))  # type: ignore[misc]
            with pytest.raises(EmbedderError) as caught:
                embedder.embed_documents([f"I say: {S}!"])
            assert CANARY not in str(caught.value) and (quoted in str(caught.value)) is kept
        told = explained(ValueError("hunter2 is wrong"), "x", None, sent=["hunter2"])
        assert "characters that quote what was sent" in told


def test_a_damaged_text_is_not_quoted(tmp_path: Path) -> None:
    memory = HierarchicalMemory(tmp_path, embedder="hashing:64", store="exact")
    memory.add(MessageStep("user", S))
    with sqlite3.connect(sqlite(memory.long_term.journal).path) as db:
        db.execute("UPDATE steps SET record = CAST(? AS TEXT)", (S.encode() + b"\xff",))
    db.close()
    for call in (lambda: memory.get(1), memory.close):
        with pytest.raises(FormatError, match=r"damaged .*: Could not decode to UTF-8 column 'record'; rest") as caught:
            call()
        chain: BaseException | None = caught.value
        while chain is not None:
            assert CANARY not in str(chain)
            chain = chain.__cause__


# -- how they are told ------------------------------------------------------------------------------------------------


logger = logging.getLogger("tinymem.test_hourly")


def test_it_is_given_again_after_an_hour_and_held_back_ones_can_be_seen(
    our_log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(tinymem.errors, "time", SimpleNamespace(monotonic=lambda: clock.now))
    place = new_log_key()
    with our_log.at_level(logging.DEBUG):
        for passed in (0.0, 1.0, HOUR - 2, 1.0, 5.0):
            clock.now += passed
            warn_hourly(logger, place, "behind: %s", passed)
        assert [record.levelname for record in our_log.records] == ["WARNING", "DEBUG", "DEBUG", "WARNING", "DEBUG"]
        assert {record.funcName for record in our_log.records} == {
            test_it_is_given_again_after_an_hour_and_held_back_ones_can_be_seen.__name__
        }
