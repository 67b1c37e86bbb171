"""A plugin that runs a framework's own tests over our class: LangGraph's SqliteStore, the Agents SDK's SQLiteSession.

What the classes there offer beside the framework's interface (a connection string, one class for `await`) is made here
from what ours have. The README beside this file has the commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import Any

from tinymem import HierarchicalMemory


def pytest_configure(config: Any) -> None:
    """Know the mark of tests that depend on the clock, whose plugin is not needed."""
    config.addinivalue_line("markers", "flaky: fails at times")


class Embeds:
    """The embedder of an index, as one of ours."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    def embed(self, text: str) -> list[float]:
        """Embed one text."""
        found: list[float] = self._embeddings.embed_query(text)
        return found


def memory_at(path: str, embedder: Any = "hashing:64") -> HierarchicalMemory:
    """Open a memory beside a file; ":memory:" is a private one."""
    return HierarchicalMemory(None if path == ":memory:" else f"{path}.memory", embedder=embedder, store="exact")


def _replace_stores() -> None:
    from langgraph.store import sqlite
    from langgraph.store.sqlite import aio

    from tinymem.integrations.langgraph import TinymemStore

    def opened(kind: Any, path: str, index: Any) -> Any:
        memory = memory_at(path, Embeds(index["embed"]) if index else "hashing:64")
        return kind(memory, fields=index.get("text_fields") if index else None)

    class Store(TinymemStore):
        @classmethod
        @contextmanager
        def from_conn_string(cls, path: str, *, index: Any = None) -> Iterator[Any]:
            store = opened(cls, path, index)
            with store.memory:
                yield store

        def setup(self) -> None:
            """A memory needs none."""

    class AsyncStore(TinymemStore):
        @classmethod
        @asynccontextmanager
        async def from_conn_string(cls, path: str, *, index: Any = None) -> AsyncIterator[Any]:
            store = opened(cls, path, index)
            with store.memory:
                yield store

        async def setup(self) -> None:
            """A memory needs none."""

    for module in (sqlite, aio):
        vars(module).update(AsyncSqliteStore=AsyncStore)
    vars(sqlite).update(SqliteStore=Store)


def _replace_session() -> None:
    import agents
    from agents.memory import sqlite_session

    from tinymem.integrations.openai_agents import TinymemSession

    memories: dict[str, HierarchicalMemory] = {}

    class Session(TinymemSession):
        def __init__(self, session_id: str, db_path: Any = ":memory:", *_: Any, session_settings: Any = None) -> None:
            path = str(db_path)
            self._is_private = path == ":memory:"
            if path not in memories or self._is_private or memories[path].closed:
                memories[path] = memory_at(path)
            super().__init__(session_id, memories[path], session_settings)

        def close(self) -> None:
            if self._is_private:
                self.memory.close()

    for module in (agents, agents.memory, sqlite_session):
        vars(module).update(SQLiteSession=Session)


if find_spec("langgraph.store.sqlite"):
    _replace_stores()
if find_spec("agents"):
    _replace_session()
