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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from scripted_model import BUDGET, TASK, Move, World, next_move
from work import PATIENCE

from tinymem import HierarchicalMemory, count_tokens
from tinymem.embedders.hashing import HashingEmbedder
from tinymem.messages import problems
from tinymem.messages.formats.parts import texts_of
from tinymem.protocols import Vectors
from tinymem.steps.content import as_text

Chat = list[dict[str, Any]]
Script = Callable[[Chat], Move]
Read = Callable[[str], str]

__all__ = ["VAULT", "AdapterContract", "Agent", "Chat", "Read", "Script", "open_memory", "thought"]

SYSTEM = "You read."
BLOCK = re.compile(  # of a memory, and those in which frameworks put what a memory gives them
    r"(?:The following content is from your previous[^<]*)?"
    r"<(recalled-\d+|memor(?:y|ies)|PAST_CONVERSATIONS)\b[^>\n]*>\n.*?\n</\1>",
    re.DOTALL,
)
QUESTION = "Which TCP port does the PostgreSQL server of the staging environment listen on? Begin with checklist.md."


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

    async def astream(self, text: str) -> object:
        """Do the same, and take the answer piece by piece."""
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
        self.was_stuck |= not self.gate.wait(PATIENCE)
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


def reading_one(messages: Chat) -> Move:
    """A model that reads the file it is asked to, and goes on from the checklist only."""
    texts = said(messages)
    if "Next sheet:" in texts[-1]:
        return Move(answer=f"Noted, {len(texts)}.")
    return next_move([{"content": one} for one in (recalled(messages), *texts)])


TOLD = "The Vault server of staging listens on port 18443."
VAULT = answering({"Vault": "Noted, Vault.", "Which port": "It is 18443."})


class AdapterContract(ABC):
    """The suite.

    Attributes:
        kind: The class of its agents.
        has_async: The framework has an event loop.
        awaits: An agent is asked in an event loop only, so that one way to ask it tells of both.
        streams: It gives answers piece by piece.
        thinks: It sends the thinking of a model back with each turn.
        cuts: It cuts long results itself.
        fits: The adapter chooses what is sent. Otherwise the framework does, and the memory, a service or a store, is
            asked what bears on the newest message. Then no one conversation is longer than the framework lets it be:
            the sheets are read in a conversation each, a long result is sent whole, and what is checked of the budget
            is that what comes back of all that leaves the request inside it.
        excerpts: What comes back of a long text is a part of it. A store gives back what was put, whole.
        judges: Nothing comes back where nothing bears on the question. A store gives back as many as it is asked for,
            and smolagents begins every request with the same words.
    """

    kind: Any
    has_async = True
    awaits = False
    streams = True
    thinks = True
    cuts = False
    fits = True
    excerpts = True
    judges = True

    def agent(self, memory: Any, session: str, script: Script, read: Read = str, like: Any = None) -> Any:
        """Make an agent with a budget of BUDGET tokens; `like` is an agent whose history it goes on with."""
        return self.kind(memory, session, script, read, like)

    @abstractmethod
    async def call_tool(self, memory: Any, name: str, arguments: dict[str, Any]) -> str:
        """Call one of the tools that the framework is given of the memory, as the framework does."""

    def opened(self, path: Path, embedder: Any = "static") -> AbstractContextManager[Any]:
        """Open the memory, or the memories, that the adapter takes."""
        return open_memory(path, embedder)

    def texts(self, memory: Any) -> list[str]:
        """Return the text of each step."""
        return [" ".join(step.text.split()) for step in memory.history()]

    @pytest.fixture
    def memory(self, tmp_path: Path) -> Iterator[Any]:
        with self.opened(tmp_path / "memory") as opened:
            yield opened

    def check(self, agent: Agent, budget: bool = True) -> None:
        """Every request is valid, inside the budget, and has the thinking of each turn that calls a tool."""
        assert agent.requests
        for chat, thoughts in zip(agent.requests, agent.thoughts, strict=True):
            assert problems(chat) == []
            assert count_tokens(chat) <= BUDGET or not budget
            if self.thinks:
                assert len(thoughts) == sum(1 for message in chat if message["role"] == "assistant")
                assert len(set(thoughts)) == len(thoughts) and all(one.startswith("Thought ") for one in thoughts)

    def check_sheets(self, memory: Any, world: World, ask: Callable[[Any, str], str]) -> None:
        """The last request has what the fourth sheet said, and the framework holds all of it, and nothing else."""

        def make(session: str, script: Script = reading_one) -> Any:
            return self.agent(memory, session, script, lambda path: (world.folder / path).read_text("utf-8"))

        agents = []
        if self.fits:
            agents.append(make("s1", next_move))
            assert world.word in ask(agents[0], TASK.format(first="hosts/000.md"))
            assert len(agents[0].requests) == world.sheets + 3
            assert len(agents[0].requests[-1]) < world.sheets  # of more than twice as many
        else:
            for at in range(world.sheets):
                agents.append(make(f"sheet-{at}"))
                assert "Noted" in ask(agents[-1], f"Read a sheet. Begin with hosts/{at:03}.md.")
            agents.append(make("last"))
            assert world.word in ask(agents[-1], QUESTION)
        for agent in agents:
            self.check(agent)
        held = str([agent.held() for agent in agents])
        assert all(f"Host {at:03}" in held for at in range(world.sheets))
        assert not any(line and line in held for line in recalled(agents[-1].requests[-1]).splitlines()[:1])

    def test_the_sheets_are_answered_from_memory(self, memory: Any, world: World) -> None:
        self.check_sheets(memory, world, lambda agent, text: agent.ask(text))

    @pytest.mark.slow
    def test_the_sheets_are_answered_in_an_event_loop(self, memory: Any, world: World) -> None:
        if not self.has_async or self.awaits:
            pytest.skip("the framework has one way to be asked")
        self.check_sheets(memory, world, lambda agent, text: asyncio.run(agent.aask(text)))

    def test_a_restart_adds_nothing_twice(self, tmp_path: Path) -> None:
        def script(messages: Chat) -> Move:
            newest = said(messages)[-1]
            if "is the port" in newest:
                return Move(path="ports.md" if "first" in newest else "more.md")
            return Move(answer=f"It says: {newest[-20:]}")

        def read(path: str) -> str:
            return f"The file {path} names {len(path)} ports."

        with self.opened(tmp_path) as memory:
            first = self.agent(memory, "s1", script, read)
            answers = [first.ask("Which is the port of the first host?")]
        with self.opened(tmp_path) as memory:
            second = self.agent(memory, "s1", script, read, first)
            answers.append(second.ask("Which is the port of the second host?"))
            texts = self.texts(memory)
            assert [text for text, times in Counter(texts).items() if times > 1] == []
            kept = "\n".join(texts)
            for text in ("first host", "The file ports.md", "second host", "The file more.md", *answers):
                assert text in kept  # the last answer as well

    def test_what_is_streamed_or_awaited_is_archived_as_any_other(self, tmp_path: Path) -> None:
        def script(messages: Chat) -> Move:
            newest = said(messages)[-1]
            return Move(path=f"{newest[-2]}.md") if "is the port" in newest else Move(answer=f"It says: {newest[-20:]}")

        plain: list[str] | None = None
        for way in self.ways():
            with self.opened(tmp_path / way) as memory:
                agent = self.agent(memory, "s1", script, lambda path: f"The file {path} names ports.")
                for number in range(3):
                    self.run(agent, way, f"Which is the port of host {number}?")
                texts = self.texts(memory)
            plain = plain or texts
            assert texts == plain and len(texts) == len(set(texts)) >= 3 * 3

    def test_threads_recall_each_other_and_do_not_see_each_others_window(self, memory: Any) -> None:
        self.tell(memory)
        other = self.agent(memory, "thread-2", VAULT)
        other.ask("Which port does staging listen on?")
        (chat,) = other.requests
        assert [text for text in said(chat) if "Which port" in text] == said(chat)[-1:]
        assert TOLD not in "\n".join(said(chat)) and "18443" in recalled(chat)

    def test_what_a_request_shows_is_not_recalled_into_it(self, memory: Any) -> None:
        def script(messages: Chat) -> Move:
            newest = said(messages)[-1]
            return Move(path="vault.md") if "Where" in newest else Move(answer=f"Noted: {newest[-14:]}")

        agent = self.agent(memory, "s1", script, lambda path: "The Vault server of staging is in rack 18443.")
        for number in range(3):
            agent.ask(f"Where is the Vault server of staging, number {number}?")
        assert all("Vault" in "\n".join(said(chat)) for chat in agent.requests)
        assert not any(recalled(chat) for chat in agent.requests)

    def test_nothing_is_recalled_that_has_nothing_to_do_with_the_question(self, memory: Any) -> None:
        if not self.judges:
            pytest.skip("the framework asks for the best, whatever they are")
        self.tell(memory)
        other = self.agent(memory, "thread-2", lambda _: Move(answer="Stir it."))
        other.ask("How do I keep a risotto from burning?")
        assert [recalled(chat) for chat in other.requests] == [""]

    def tell(self, memory: Any) -> None:
        """Say what others ask for, in a conversation of its own."""
        agent = self.agent(memory, "thread-1", VAULT)
        agent.ask(TOLD)

    def ways(self) -> list[str]:
        """Return the names of the methods by which an agent is asked."""
        return [
            "ask",
            *(["aask"] if self.has_async and not self.awaits else ()),
            *(["astream"] if self.streams else ()),
        ]

    def run(self, agent: Agent, way: str, text: str) -> None:
        """Ask an agent in one of these ways."""
        answer = getattr(agent, way)(text)
        if way != "ask":
            asyncio.run(answer)

    def test_a_result_of_twenty_budgets_leaves_its_call_in_place(self, memory: Any) -> None:
        long = "Line of the log: all is quiet.\n" * (20 * BUDGET // 8)
        assert count_tokens([{"role": "user", "content": long}]) >= 20 * BUDGET

        def script(messages: Chat) -> Move:
            return Move(answer="Quiet.") if "all is quiet" in said(messages)[-1] else Move(path="log.txt")

        agent = self.agent(memory, "s1", script, lambda path: long)
        assert "Quiet." in agent.ask("Is the log quiet?")
        self.check(agent, self.fits)
        self.check_pair(agent.requests[-1])
        assert self.cuts or str(agent.held()).count("all is quiet") == long.count("all is quiet")
        if not self.fits:
            other = self.agent(memory, "s2", lambda _: Move(answer="Yes."))
            other.ask("Is all quiet in the log?")
            self.check(other, self.excerpts)
            assert "all is quiet" in recalled(other.requests[-1])

    def check_pair(self, chat: Chat) -> None:
        """The newest call and its result, shortened if the adapter chooses what is sent, are there."""
        call, result = [one for one in chat if one["role"] != "user" or said([one])][-2:]
        assert call["tool_calls"][0]["id"] == result["tool_call_id"] and "all is quiet" in as_text(result["content"])

    def test_a_model_searches_and_opens_with_tools_of_the_framework(self, memory: Any) -> None:
        self.tell(memory)
        found = asyncio.run(self.call_tool(memory, "search_memory", {"query": "Vault", "max_tokens": 400}))
        number = re.search(r"(#\d+)[^#]*18443", found)
        assert number is not None
        assert "18443" in asyncio.run(self.call_tool(memory, "open_memory", {"id": number[1]}))
        assert "no step" in asyncio.run(self.call_tool(memory, "open_memory", {"id": "#999"}))

    def test_nothing_blocks_the_event_loop(self, tmp_path: Path) -> None:
        if not self.has_async:
            pytest.skip("the framework has no event loop")
        embedder = BlockingEmbedder()

        async def release() -> None:
            while not embedder.waits.is_set():
                await asyncio.sleep(0.001)
            embedder.gate.set()  # nobody else does

        async def both(agent: Agent) -> str:
            answer, _ = await asyncio.gather(agent.aask("Which port does staging listen on?"), release())
            return answer

        with self.opened(tmp_path, embedder) as memory:
            self.tell(memory)
            other = self.agent(memory, "thread-2", VAULT)
            embedder.gate.clear()
            embedder.waits.clear()
            assert asyncio.run(both(other)) == "It is 18443."
        assert not embedder.was_stuck
