"""The OpenAI embedder, over real HTTP against a server on the loopback interface."""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import openai
import pytest
from contract import EMBEDDER_CHECKS
from memories import sentences
from servers import KEY, OpenAIServer, answer, answer_with, failure, free_port

from tinymem.embedders import HashingEmbedder, OpenAIEmbedder
from tinymem.errors import EmbedderError, InputError, MissingExtraError
from tinymem.messages.tokens import default_counter
from tinymem.protocols import Embedder
from tinymem.registry import embedder_from

NONSENSE: list[Callable[[dict[str, Any]], Any]] = [
    lambda body: answer_with(body, []),
    lambda body: answer_with(body, [np.ones(64), np.full(64, np.nan)]),
    lambda body: (200, {**answer(body)[1], "data": [answer(body)[1]["data"][0]] * 2}, {}),
    lambda body: (200, {"hello": "world"}, {}),
    lambda body: (200, b"<html>a proxy's login page</html>", {"Content-Type": "text/html"}),
]


@pytest.fixture
def impatient(server: OpenAIServer) -> OpenAIEmbedder:
    """An embedder of 64 dimensions, known already, that repeats nothing."""
    embedder = OpenAIEmbedder("local-model", max_retries=0, timeout=5)
    assert embedder.dimensions == 64
    server.requests.clear()
    return embedder


@pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
def test_the_embedder_keeps_the_contract(server: OpenAIServer, check: Callable[[Embedder], None]) -> None:
    check(embedder_from("openai:local-model"))


# what is sent, and what comes back


def test_fewer_dimensions_are_asked_of_the_server(server: OpenAIServer) -> None:
    vectors = OpenAIEmbedder(dimensions=256).embed_documents(["one", "two"])
    assert vectors.shape == (2, 256)
    assert server.requests[0]["dimensions"] == 256
    OpenAIEmbedder().embed_documents(["one"])
    assert "dimensions" not in server.requests[1]


def test_blank_texts_are_never_sent_and_equal_ones_once(server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder()
    assert not embedder.embed_documents(["", "  \n", "\u3000"]).any()
    assert not server.requests
    vectors = embedder.embed_documents(["a", "", "b", "a", " "])
    assert server.inputs() == ["a", "b"]
    assert vectors.any(axis=1).tolist() == [True, False, True, True, False]
    assert (vectors[0] == vectors[3]).all()


def test_a_request_has_no_more_texts_than_the_api_takes(server: OpenAIServer) -> None:
    texts = [f"word{number}" for number in range(2_050)]
    vectors = OpenAIEmbedder("text-embedding-3-small", dimensions=32).embed_documents(texts)
    assert [len(request["input"]) for request in server.requests] == [2_048, 2]
    assert np.allclose(vectors, HashingEmbedder(32).embed_documents(texts), atol=1e-6)
    server.requests.clear()
    OpenAIEmbedder(batch_size=2).embed_documents(list("abcde"))
    assert [len(request["input"]) for request in server.requests] == [2, 2, 1]


def test_a_request_has_no_more_tokens_than_the_api_takes(server: OpenAIServer) -> None:
    texts = [f"number {number}" + " word" * 7_000 for number in range(43)]
    embedder = OpenAIEmbedder(dimensions=16)
    embedder.embed_documents(texts)
    assert [len(request["input"]) for request in server.requests] == [42, 1]  # 301,000 tokens
    assert embedder.tokens_used == sum(map(default_counter().count, texts))


def test_a_long_text_is_embedded_in_slices_weighted_by_their_tokens(server: OpenAIServer) -> None:
    text = " ".join(sentences(2_500, length=12))
    embedder = OpenAIEmbedder(dimensions=32)
    vector = embedder.embed_documents(["short", text, "last"])[1]
    sent = server.inputs()
    assert sent[0] == "short" and sent[-1] == "last" and "".join(sent[1:-1]) == text and len(sent) > 4
    tokens = [default_counter().count(piece) for piece in sent[1:-1]]
    assert max(tokens) <= 8_191 and min(tokens) > 0.5 * max(tokens)
    expected = np.array(tokens) @ HashingEmbedder(32).embed_documents(sent[1:-1])
    assert np.allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


def test_prompts_stand_before_every_text_and_in_the_fingerprint(server: OpenAIServer) -> None:
    embedder = OpenAIEmbedder(dimensions=16, query_prompt="search_query: ", document_prompt="search_document: ")
    embedder.embed_queries(["what?"])
    embedder.embed_documents(["that", ""])
    assert server.inputs() == ["search_query: what?", "search_document: that"]
    assert embedder.fingerprint != OpenAIEmbedder(dimensions=16).fingerprint


def test_a_client_is_used_as_it_is(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with openai.OpenAI(api_key=KEY, base_url=server.url, max_retries=0) as client:
        embedder = OpenAIEmbedder("local-model", client=client)
        assert embedder.embed_queries(["a"]).shape == (1, 64)
        server.faults.append(lambda body: failure(500, "broken"))
        with pytest.raises(EmbedderError, match="after up to 0 repetitions"):
            embedder.embed_queries(["a"])


def test_the_fingerprint_is_the_models_and_not_the_hosts(server: OpenAIServer) -> None:
    here, there = OpenAIEmbedder(), OpenAIEmbedder(base_url="https://proxy.example/v1", api_key="sk-another")
    assert here.fingerprint == there.fingerprint
    assert here.name == "openai:text-embedding-3-small"
    others = {OpenAIEmbedder(dimensions=256).fingerprint, OpenAIEmbedder("text-embedding-3-large").fingerprint}
    assert len({here.fingerprint, *others}) == 3
    assert OpenAIEmbedder(dimensions=1536).fingerprint == here.fingerprint


# what goes wrong


def test_no_key_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "", " \n"):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        if value is not None:
            monkeypatch.setenv("OPENAI_API_KEY", value)
        with pytest.raises(EmbedderError, match="openai:text-embedding-3-small needs an API key: set OPENAI_API_KEY"):
            embedder_from("openai:text-embedding-3-small")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'tinymem-agents[openai]'")):
        embedder_from("openai:text-embedding-3-small")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (failure(401, "Incorrect API key"), r"HTTP 401, .*: the API key was refused: check .*OPENAI_API_KEY"),
        (failure(429, "Slow down"), r"\(HTTP 429, after up to 0 repetitions\): Slow down: check .*max_input_tokens"),
        ((502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"}), "HTTP 502.*Bad Gateway"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_a_refusal_is_an_error_that_says_what_to_do(
    server: OpenAIServer, impatient: OpenAIEmbedder, fault: Any, message: str
) -> None:
    server.faults.append(lambda body: fault)
    with pytest.raises(EmbedderError, match=message) as caught:
        impatient.embed_documents(["a"])
    assert f"openai:local-model at {server.url}" in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_an_error(server: OpenAIServer, impatient: OpenAIEmbedder, fault: Any) -> None:
    server.faults.append(fault)
    with pytest.raises(EmbedderError, match=f"openai:local-model at {server.url}"):
        impatient.embed_documents(["a", "b"])
    assert impatient.embed_documents(["a"]).shape == (1, 64)


def test_an_unknown_model_or_one_of_other_dimensions_is_an_error_that_names_it(server: OpenAIServer) -> None:
    with pytest.raises(EmbedderError, match=r"openai:tpyo .*HTTP 404.*`tpyo` does not exist.*the model's name"):
        _ = embedder_from("openai:tpyo").dimensions
    with pytest.raises(EmbedderError, match=r"HTTP 404.*embeddings API runs at this address"):
        OpenAIEmbedder(base_url=server.url + "/nowhere").embed_documents(["a"])
    server.faults.append(lambda body: answer_with(body, [np.ones(768)]))
    with pytest.raises(EmbedderError, match=r"vectors of shape \(1, 768\).* not of \(1, 1536\)"):
        OpenAIEmbedder().embed_documents(["a"])


def test_what_fails_for_a_moment_is_repeated_by_the_openai_package_alone(server: OpenAIServer) -> None:
    soon = {"Retry-After-Ms": "10"}
    server.faults += [lambda body: failure(429, "Slow down", **soon), lambda body: failure(500, "Oops", **soon)]
    embedder = OpenAIEmbedder(dimensions=16)
    assert embedder.embed_documents(["a"]).any()
    assert len(server.requests) == 3
    server.requests.clear()
    server.faults += [lambda body: failure(503, "Busy", **soon)] * 20
    with pytest.raises(EmbedderError, match="HTTP 503, after up to 2 repetitions"):
        OpenAIEmbedder(dimensions=16, max_retries=2).embed_documents(["a"])
    assert len(server.requests) == 3  # not 9, as if somebody else repeated as well


def test_a_slow_server_is_an_error_in_time(server: OpenAIServer) -> None:
    waiting = threading.Event()

    def slow(body: dict[str, Any]) -> None:
        waiting.wait(120)  # then it would answer

    server.faults.append(slow)
    with pytest.raises(EmbedderError, match=r"APITimeoutError.*timeout="):
        OpenAIEmbedder(timeout=0.2, max_retries=0).embed_documents(["a"])
    waiting.set()


def test_no_server_is_an_error_that_names_its_address(server: OpenAIServer) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(EmbedderError, match=f"at {url} failed .APIConnectionError.*refused"):
        OpenAIEmbedder(base_url=url, max_retries=0).embed_documents(["a"])
    with pytest.raises(EmbedderError, match="APIConnectionError"):
        OpenAIEmbedder(base_url="localhost:8000", max_retries=0).embed_documents(["a"])


@pytest.mark.parametrize("key", ["sk-wrong-but-secret", "sk-wrong-but-secret\n"])
def test_the_key_is_in_no_error_no_repr_and_no_log(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = OpenAIEmbedder(api_key=key, max_retries=0, base_url=server.url.replace("//", "//user:hush@"))
    seen = [repr(embedder), str(embedder), embedder.name, embedder.fingerprint]
    for status in (401, 400, 500):
        server.faults.append(lambda body, status=status: failure(status, f"what is {key}?"))  # type: ignore[misc]
        with pytest.raises(EmbedderError) as caught:
            embedder.embed_documents(["a"])
        seen += [str(caught.value), "".join(traceback.format_exception(caught.value))]
    assert not [text for text in seen if "but-secret" in text or "hush" in text]
    assert "but-secret" not in caplog.text


@pytest.mark.parametrize(
    "make",
    [
        lambda: OpenAIEmbedder.from_name(""),
        lambda: OpenAIEmbedder(dimensions=0),
        lambda: OpenAIEmbedder(max_input_tokens=10),
        lambda: OpenAIEmbedder(client=openai.OpenAI(), api_key="sk-two"),
        lambda: OpenAIEmbedder().embed_documents("one text"),
    ],
)
def test_senseless_arguments_are_input_errors(server: OpenAIServer, make: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        make()
