"""The embeddings of OpenAI, and of every server that speaks its API (Ollama, vLLM, llama.cpp, LiteLLM, ...)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from tinymem.embedders.batches import to_unit
from tinymem.embedders.client import address, checked_client, connected, explained, usual_address
from tinymem.errors import EmbedderError, InputError, TinymemError
from tinymem.messages.tokens import default_counter
from tinymem.protocols import TokenCounter, Vectors
from tinymem.steps.checks import check_strings
from tinymem.steps.content import clean

__all__ = ["OpenAIEmbedder"]

DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
REQUEST_TOKENS = 300_000  # tokens that the API takes in one request, over all its inputs
LEAST_ROOM = 16  # tokens that a slice must have room for, so that any character fits
POOLING = "slices1"  # part of the fingerprint: raise it when long texts are cut or averaged in another way


class _Piece(NamedTuple):
    """A text, or a slice of one: `owner` is the text's number, `tokens` the tokens that are sent for it."""

    owner: int
    text: str
    tokens: int


class OpenAIEmbedder:
    """An embedder by a model behind `POST /v1/embeddings`. Any number of threads may use one.

    Equal texts are sent once, blank ones never. A text of more than `max_input_tokens` is embedded in slices, whose
    vectors are averaged by their tokens. `tokens_used` counts the tokens of all requests.

    >>> embedder = OpenAIEmbedder("text-embedding-3-small")  # doctest: +SKIP
    >>> embedder.embed_queries(["which test is flaky?"]).shape, embedder.tokens_used  # doctest: +SKIP
    ((1, 1536), 6)

    Args:
        model: The model's name.
        base_url: The server's address; by default OPENAI_BASE_URL, as the openai package reads it.
        api_key: The key; by default OPENAI_API_KEY.
        dimensions: The length of shortened vectors, where the model can shorten them.
        client: A client of the openai package to use instead, as `AzureOpenAI`.
        timeout: The most seconds to wait for an answer.
        max_retries: Repetitions of a failed request, by the openai package.
        batch_size: The most texts in a request, which has at most 300,000 tokens besides.
        max_input_tokens: The most tokens of a text, or of a slice of one.
        query_prompt: A text to put before each query, for models that want that, as nomic-embed-text.
        document_prompt: A text to put before each document.

    Raises:
        MissingExtraError: The openai package is not installed.
        EmbedderError: There is no key.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        client: Any = None,
        timeout: float = 30,
        max_retries: int = 3,
        batch_size: int = 2_048,
        max_input_tokens: int = 8_191,
        query_prompt: str = "",
        document_prompt: str = "",
    ) -> None:
        if not model:
            raise InputError("a model is needed, as text-embedding-3-small")
        for name, value in {"dimensions": dimensions, "batch_size": batch_size}.items():
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, and {value} was given")
        self._model, self._asked, self._batch_size = model, dimensions, batch_size
        self._prompts = {"query": query_prompt, "document": document_prompt}
        self._longest = max_input_tokens
        self._counter: TokenCounter = default_counter()
        self._room = max_input_tokens - max(map(self._counter.count, self._prompts.values()))
        if self._room < LEAST_ROOM:
            raise InputError(f"max_input_tokens must leave {LEAST_ROOM} beside the prompt, and leaves {self._room}")
        self._dimensions = dimensions or DIMENSIONS.get(model)
        self._lock = threading.Lock()
        self.tokens_used = 0  # as the server counts them; 0 if it does not
        self._client = checked_client(client, base_url, api_key) or connected(
            "embedder", f"openai:{model}", base_url, api_key, timeout, max_retries, EmbedderError
        )
        where = address(self._client)
        self._who = f"openai:{model} at {where}"
        # Behind an @ the address, if it is not the one of the environment.
        self.name = f"openai:{model}" if where == usual_address() else f"openai:{model}@{where}"

    @classmethod
    def from_name(cls, argument: str) -> OpenAIEmbedder:
        """Make the embedder named `"openai:MODEL"`; address and key from OPENAI_BASE_URL and OPENAI_API_KEY.

        One named `"openai:MODEL@ADDRESS"` was made for another address in code. A memory's files must not decide where
        its texts and the key are sent.

        Raises:
            InputError: The model is missing, or the environment names another address.
        """
        model, _, where = argument.rpartition("@")
        if "://" not in where:  # an @ of the model's own
            model, where = argument, ""
        if not model:
            raise InputError('a model is needed after the colon, as in "openai:text-embedding-3-small"')
        if where and where != usual_address():
            raise InputError(
                f"texts for {model} went to {where}, and would now go to {usual_address()}: set OPENAI_BASE_URL to the "
                f"first, or pass embedder=tinymem.embedders.OpenAIEmbedder({model!r}, base_url=...)"
            )
        return cls(model)

    @property
    def fingerprint(self) -> str:
        """Model, dimensions, longest input and prompts.

        The host is no part of it: a model is the same behind OpenAI, Azure, a proxy or another port, and a memory must
        not be reindexed for a move. Two servers with different weights under one name therefore look the same.
        """
        prompts = "".join(f"/{kind}={prompt!r}" for kind, prompt in self._prompts.items() if prompt)
        return f"openai/{self._model}/{self.dimensions}/{POOLING}-{self._longest}{prompts}"

    @property
    def dimensions(self) -> int:
        """The length of a vector, as given or as known of the model; for other models it takes one request."""
        if self._dimensions is None:
            self._request(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed stored texts: `(len(texts), dimensions)` float32 of length 1, zero for empty text or white space.

        Raises:
            EmbedderError: The server cannot be reached, refuses, or answers with nonsense; the message says what to do.
        """
        return self._embed(texts, self._prompts["document"])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries: as `embed_documents`, but with the prompt for queries."""
        return self._embed(texts, self._prompts["query"])

    def __repr__(self) -> str:
        return f"<OpenAIEmbedder {self._who}>"

    def _embed(self, texts: Sequence[str], prompt: str) -> Vectors:
        texts = check_strings("texts", texts)
        cleaned = [clean(text) for text in texts]
        places = {text: number for number, text in enumerate(dict.fromkeys(cleaned))}
        sums = np.zeros((len(places), self.dimensions), dtype=np.float32)
        extra = self._counter.count(prompt)
        slices = chain.from_iterable(self._cut(owner, text, extra) for owner, text in enumerate(places))
        for batch in self._batches(slices):
            rows = to_unit(self._request([prompt + piece.text for piece in batch]))
            weights = np.array([[piece.tokens] for piece in batch], dtype=np.float32)
            np.add.at(sums, [piece.owner for piece in batch], weights * rows)
        return to_unit(sums)[[places[text] for text in cleaned]]

    def _cut(self, owner: int, text: str, extra: int) -> Iterator[_Piece]:
        """Yield `text`, or slices of about equal length that fit in a request with `extra` tokens; no blank ones."""
        if not text.strip():
            return
        tokens = self._counter.count(text)
        if tokens <= self._room:
            yield _Piece(owner, text, tokens + extra)
            return
        length = -(-len(text) // -(-tokens // self._room))
        for start in range(0, len(text), length):
            yield from self._cut(owner, text[start : start + length], extra)

    def _batches(self, slices: Iterable[_Piece]) -> Iterator[list[_Piece]]:
        batch: list[_Piece] = []
        tokens = 0
        for piece in slices:
            if batch and (len(batch) == self._batch_size or tokens + piece.tokens > REQUEST_TOKENS):
                yield batch
                batch, tokens = [], 0
            batch.append(piece)
            tokens += piece.tokens
        if batch:
            yield batch

    def _request(self, texts: list[str]) -> Vectors:
        """Send one request: `(len(texts), dimensions)`, checked, not normalised."""
        shortened = {} if self._asked is None else {"dimensions": self._asked}
        try:
            response = self._client.embeddings.create(model=self._model, input=texts, **shortened)
            with self._lock:
                self.tokens_used += int(getattr(getattr(response, "usage", None), "total_tokens", None) or 0)
            return self._rows(response.data, len(texts))
        except TinymemError:
            raise
        except Exception as error:
            # None: the cause may quote the key, as a server echoes it or an illegal header is shown.
            raise EmbedderError(explained(error, self._who, self._client, sent=texts)) from None

    def _rows(self, data: Any, expected: int) -> Vectors:
        """Return the vectors in the order of the texts, which need not be that of the answer."""
        items = sorted(data, key=lambda item: int(item.index))
        rows = np.array([item.embedding for item in items], dtype=np.float32)
        self._dimensions = self._dimensions or rows.shape[1]
        shape = expected, self._dimensions
        if [int(item.index) for item in items] != [*range(expected)] or rows.shape != shape:
            raise EmbedderError(
                f"{self._who} gave vectors of shape {rows.shape}, or numbered wrongly, and not of {shape}"
            )
        if not np.isfinite(rows).all():
            raise EmbedderError(f"{self._who} gave a vector with NaN or infinity for one of {expected} texts")
        return rows
