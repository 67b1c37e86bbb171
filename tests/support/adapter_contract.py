"""What every adapter of a framework must do, as one suite over the real framework with a scripted model.

An adapter's tests subclass `AdapterContract` and make an `Agent`: the framework's own agent, with a model of the
framework's own class that asks a function of the messages for its next move.
"""

from __future__ import annotations

import asyncio
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_model import BUDGET, TASK, Move, World, next_move

from tinymem import HierarchicalMemory, count_tokens
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.messages import problems
from tinymem.messages.formats.parts import texts_of
from tinymem.protocols import Vectors
from tinymem.steps.content import as_text

Chat = list[dict[str, Any]]
Script = Callable[[Chat], Move]
Read = Callable[[str], str]

__all__ = ["AdapterContract", "Agent", "Chat", "Read", "Script", "open_memory", "thought"]

SYSTEM = "You read."
BLOCK = re.compile(r"<(recalled-\d+) [^>\n]*>\n.*?\n</\1>", re.DOTALL)


def thought(number: int) -> str:
    """What a model thinks before its move of this number."""
    return f"Thought {number}: the sheets go on."


def open_memory(path: Path | None = None, embedder: Any = "static", **options: Any) -> HierarchicalMemory:
    return HierarchicalMemory(path, embedder=embedder, store="exact", **options)


class Agent(ABC):
    """An agent of a framework that calls the tool `read_file`.

    Attributes:
        requests: What the model was sent, call by call, as messages of a chat.
        thoughts: What it was sent of its own thinking, call by call.
    """

    def __init__(self) -> None:
        self.requests: list[Chat] = []
        self.thoughts: list[list[str]] = []

    @abstractmethod
    def ask(self, text: str) -> str:
        """Say something to the agent, and return its answer."""

    async def aask(self, text: str) -> str:
        """Do the same in an event loop."""
        raise NotImplementedError

    @abstractmethod
    def held(self) -> list[Any]:
        """Return the messages that the framework holds of the conversation."""


class BlockingEmbedder(HashingEmbedder):
    """An embedder that waits for its gate, and says so."""

    def __init__(self) -> None:
        super().__init__(64)
        self.gate, self.waits, self.was_stuck = threading.Event(), threading.Event(), False
        self.gate.set()

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.waits.set()
        self.was_stuck |= not self.gate.wait(20)
        return super().embed_queries(texts)


def said(chat: Chat) -> list[str]:
    """The texts of a request that the conversation itself said."""
    found = [text for message in chat if message["role"] != "system" for text in texts_of(message.get("content"))]
    return [text for one in found if (text := BLOCK.sub("", one).strip())]


def recalled(chat: Chat) -> str:
    """The blocks of what was recalled."""
    found = (text for message in chat for text in texts_of(message.get("content")))
    return "\n".join(block[0] for text in found for block in BLOCK.finditer(text))


def answering(answers: dict[str, str]) -> Script:
    """A model that answers what it is asked, whatever it was told before."""

    def move(messages: Chat) -> Move:
        newest = next(text for text in reversed(said(messages)))
        return Move(answer=next(answer for asked, answer in answers.items() if asked in newest))

    return move


class AdapterContract(ABC):
    """The suite. `has_async` and `thinks` say what the framework has; `cuts` that it cuts long results itself."""

    has_async = True
    thinks = True
    cuts = False

    @abstractmethod
    def agent(
        self, memory: HierarchicalMemory, session: str, script: Script, read: Read = str, like: Any = None
    ) -> Any:
        """Make an agent with a budget of BUDGET tokens; `like` is an agent whose history it goes on with."""

    def check(self, agent: Agent) -> None:
        """Every request is valid, inside the budget, and has the thinking of each turn that calls a tool."""
        assert agent.requests
        for chat, thoughts in zip(agent.requests, agent.thoughts, strict=True):
            assert problems(chat) == []
            assert count_tokens(chat) <= BUDGET
            if self.thinks:
                assert len(thoughts) == sum(1 for message in chat if message["role"] == "assistant")
                assert len(set(thoughts)) == len(thoughts) and all(one.startswith("Thought ") for one in thoughts)

    def check_sheets(self, agent: Agent, answer: str, world: World) -> None:
        assert world.word in answer
        self.check(agent)
        assert len(agent.requests) == world.sheets + 3
        assert len(agent.requests[-1]) < 40  # of 88
        held = str(agent.held())
        assert all(f"Host {at:03}" in held for at in range(world.sheets))  # all of it is still there, and nothing else
        assert not any(line and line in held for line in recalled(agent.requests[-1]).splitlines()[:1])

    def test_the_sheets_are_answered_from_memory(self, memory: HierarchicalMemory, world: World) -> None:
        agent = self.agent(memory, "s1", next_move, lambda path: (world.folder / path).read_text())
        self.check_sheets(agent, agent.ask(TASK.format(first="hosts/000.md")), world)

    def test_the_sheets_are_answered_in_an_event_loop(self, memory: HierarchicalMemory, world: World) -> None:
        if not self.has_async:
            pytest.skip("the framework has no event loop")
        agent = self.agent(memory, "s1", next_move, lambda path: (world.folder / path).read_text())
        self.check_sheets(agent, asyncio.run(agent.aask(TASK.format(first="hosts/000.md"))), world)

    def test_a_restart_adds_nothing_twice(self, tmp_path: Path) -> None:
        def script(messages: Chat) -> Move:
            newest = said(messages)[-1]
            if "is the port" in newest:
                return Move(path="ports.md" if "first" in newest else "more.md")
            return Move(answer=f"It says: {newest[-20:]}")

        def read(path: str) -> str:
            return f"The file {path} names {len(path)} ports."

        with open_memory(tmp_path) as memory:
            first = self.agent(memory, "s1", script, read)
            answers = [first.ask("Which is the port of the first host?")]
        with open_memory(tmp_path) as memory:
            second = self.agent(memory, "s1", script, read, first)
            answers.append(second.ask("Which is the port of the second host?"))
            texts = [" ".join(step.text.split()) for step in memory.history()]
            assert [text for text, times in Counter(texts).items() if times > 1] == []
            kept = "\n".join(texts)
            for text in ("first host", "The file ports.md", "second host", "The file more.md", *answers):
                assert text in kept  # the last answer as well

    def test_threads_recall_each_other_and_do_not_see_each_others_window(self, memory: HierarchicalMemory) -> None:
        script = answering({"Vault": "Noted, Vault.", "Which port": "It is 18443."})
        told = "The Vault server of staging listens on port 18443."
        self.agent(memory, "thread-1", script).ask(told)
        other = self.agent(memory, "thread-2", script)
        other.ask("Which port does staging listen on?")
        (chat,) = other.requests
        assert [text for text in said(chat) if "Which port" in text] == said(chat)[-1:]
        assert told not in "\n".join(said(chat)) and "18443" in recalled(chat)

    def test_a_result_of_twenty_budgets_leaves_its_call_in_place(self, memory: HierarchicalMemory) -> None:
        long = "Line of the log: all is quiet.\n" * (20 * BUDGET // 8)
        assert count_tokens([{"role": "user", "content": long}]) >= 20 * BUDGET

        def script(messages: Chat) -> Move:
            return Move(answer="Quiet.") if "all is quiet" in said(messages)[-1] else Move(path="log.txt")

        agent = self.agent(memory, "s1", script, lambda path: long)
        assert "Quiet." in agent.ask("Is the log quiet?")
        self.check(agent)
        self.check_pair(agent.requests[-1])
        assert self.cuts or str(agent.held()).count("all is quiet") == long.count("all is quiet")

    def check_pair(self, chat: Chat) -> None:
        """The newest call and its result, shortened, are there."""
        call, result = chat[-2:]
        assert call["tool_calls"][0]["id"] == result["tool_call_id"] and "all is quiet" in as_text(result["content"])

    def test_nothing_blocks_the_event_loop(self, tmp_path: Path) -> None:
        if not self.has_async:
            pytest.skip("the framework has no event loop")
        embedder = BlockingEmbedder()
        script = answering({"Vault": "Noted, Vault.", "Which port": "It is 18443."})

        async def release() -> None:
            while not embedder.waits.is_set():
                await asyncio.sleep(0.001)
            embedder.gate.set()  # nobody else does

        async def both(agent: Agent) -> str:
            answer, _ = await asyncio.gather(agent.aask("Which port does staging listen on?"), release())
            return answer

        with open_memory(tmp_path, embedder) as memory:
            self.agent(memory, "thread-1", script).ask("The Vault server of staging listens on port 18443.")
            embedder.gate.clear()
            embedder.waits.clear()
            assert asyncio.run(both(self.agent(memory, "thread-2", script))) == "It is 18443."
        assert not embedder.was_stuck
