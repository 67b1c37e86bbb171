"""Fixtures of a server that speaks OpenAI's APIs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import KEY, OpenAIServer, chat_answer, openai_server


@pytest.fixture(scope="module")
def running() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture
def server(running: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """The server with nothing recorded, named in the environment as the openai package reads it."""
    for recorded in (running.requests, running.faults):
        recorded.clear()
    running.chat = chat_answer
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", running.url)
    return running
