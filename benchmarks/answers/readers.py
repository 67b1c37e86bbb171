"""Readers: language models that answer a prompt, at temperature 0, each answer kept on disk and paid once.

`openai:MODEL` is OpenAI or any server that speaks its API (OPENAI_BASE_URL, OPENAI_API_KEY), `anthropic:MODEL`
Anthropic (ANTHROPIC_API_KEY), and `gguf:PATH` a file of weights, by llama.cpp in this process (extra `gguf`).
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness.data import sha256
from tinymem.embedders.client import address, connected, explained, usual_address
from tinymem.errors import InputError, MissingExtraError

__all__ = ["Cached", "Reader", "reader_from"]

KINDS = "openai:MODEL, anthropic:MODEL or gguf:PATH"
TIMEOUT, RETRIES = 120, 8  # seconds of a request; the clients wait longer from one repetition to the next
WINDOW = 512  # tokens of a gguf model beside twice the context: its tokens are not those that budgets are counted in


class Reader(Protocol):
    """A language model; `name` tells apart what answers differently."""

    @property
    def name(self) -> str:
        """Kind and model."""
        ...

    def answer(self, prompt: str, most: int) -> str:
        """Return the answer to a prompt, in at most so many tokens; InputError if there is none."""
        ...

    def close(self) -> None:
        """Release what it has."""


class OpenAIReader:
    """A model behind OpenAI's API for chats. Models that take no temperature are asked without one."""

    def __init__(self, model: str) -> None:
        self._client = connected("reader", f"openai:{model}", None, None, TIMEOUT, RETRIES, InputError)
        where = address(self._client)
        self.name = f"openai:{model}" + ("" if where == usual_address() else f"@{where}")
        self._model = model
        self._limit = "max_tokens"
        self._sampling: dict[str, Any] = {"temperature": 0}

    def answer(self, prompt: str, most: int) -> str:
        """Return the answer."""
        request = {self._limit: most, **self._sampling}
        messages = [{"role": "user", "content": prompt}]
        try:
            response = self._client.chat.completions.create(model=self._model, messages=messages, **request)
            return str(response.choices[0].message.content or "")
        except Exception as error:
            if getattr(error, "status_code", None) == 400 and self._adapts(str(error)):
                return self.answer(prompt, most)
            raise InputError(explained(error, self.name, self._client, "chat", [prompt])) from None

    def _adapts(self, refusal: str) -> bool:
        """Ask otherwise from now on, where newer models refuse a parameter; False if nothing is left to change."""
        if "max_completion_tokens" in refusal and self._limit == "max_tokens":
            self._limit = "max_completion_tokens"
            return True
        if "temperature" in refusal and self._sampling:
            self._sampling = {}
            return True
        return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AnthropicReader:
    """A model behind Anthropic's Messages API."""

    def __init__(self, model: str) -> None:
        try:
            from anthropic import Anthropic
        except ImportError as error:
            raise MissingExtraError(f"the reader anthropic:{model}", "anthropic") from error
        self.name = f"anthropic:{model}"
        self._model = model
        self._client: Any = Anthropic(max_retries=RETRIES, timeout=TIMEOUT)
        self._more = {"temperature": 0}  # in the body: newer versions of the package have no such parameter

    def answer(self, prompt: str, most: int) -> str:
        """Return the answer."""
        try:
            response = self._client.messages.create(
                model=self._model,
                max_tokens=most,
                messages=[{"role": "user", "content": prompt}],
                extra_body=self._more,
            )
        except Exception as error:
            if self._more and getattr(error, "status_code", None) == 400 and "temperature" in str(error):
                self._more = {}
                return self.answer(prompt, most)
            raise InputError(f"{self.name}: {type(error).__name__}: {str(error)[:200]}") from None
        return "".join(block.text for block in response.content if block.type == "text")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class GGUFReader:
    """Weights in a file, by llama.cpp on this machine."""

    def __init__(self, path: Path, context_tokens: int) -> None:
        try:
            import xllamacpp
        except ImportError as error:
            raise MissingExtraError("the reader gguf:PATH", "gguf") from error
        if not path.is_file():
            raise InputError(f"there is no file {path}")
        self.name = f"gguf:{path.name}@{sha256(path)[:16]}"
        settings = xllamacpp.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx = 2 * context_tokens + WINDOW
        settings.verbosity = 0
        settings.cache_ram_mib = 0  # states of earlier prompts; with them a run of 750 takes 10 GB
        settings.cpuparams.n_threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        self._server = xllamacpp.Server(settings)
        self._last = ""

    def answer(self, prompt: str, most: int) -> str:
        """Return the answer.

        A prompt whose first half begins the last one, too, as with a whole history, is read from where they part.
        Otherwise nothing is reused, since that changes the last digits.
        """
        goes_on = self._last.startswith(prompt[: len(prompt) // 2])
        self._last = prompt
        messages = [{"role": "user", "content": prompt}]
        request = {"messages": messages, "max_tokens": most, "temperature": 0, "seed": 0, "cache_prompt": goes_on}
        response = self._server.handle_chat_completions(request)
        if "choices" not in response:
            raise InputError(f"{self.name}: {response.get('error', response)}")
        return str(response["choices"][0]["message"]["content"] or "")

    def close(self) -> None:
        """Nothing is left open."""


class Cached:
    """A reader whose answers are kept in a file, by model and prompt, so that a run goes on and is paid once.

    Any number of threads may use it. At most `per_minute` requests go out in a minute.
    """

    def __init__(self, reader: Reader, path: Path, per_minute: int | None = None) -> None:
        self.name = reader.name
        self.asked = 0  # requests that were not answered from the file
        self._reader = reader
        self._pause = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path, check_same_thread=False)
        with self._file:
            self._file.execute("CREATE TABLE IF NOT EXISTS answers(key TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def answer(self, prompt: str, most: int) -> str:
        """Return the answer, from the file if it is there."""
        key = hashlib.sha256(f"{self.name}\n{most}\n{prompt}".encode("utf-8", "replace")).hexdigest()
        with self._lock:
            row = self._file.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return str(row[0])
        self._wait()
        answer = self._reader.answer(prompt, most)
        with self._lock, self._file:
            self.asked += 1
            self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))
        return answer

    def _wait(self) -> None:
        """Wait for this request's turn."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._pause
        time.sleep(turn - now)

    def close(self) -> None:
        """Close the file and the reader."""
        self._file.close()
        self._reader.close()


def reader_from(name: str, context_tokens: int) -> Reader:
    """The reader of that name, for contexts of up to so many tokens. InputError if there is none."""
    kind, _, model = name.partition(":")
    if model and kind == "openai":
        return OpenAIReader(model)
    if model and kind == "anthropic":
        return AnthropicReader(model)
    if model and kind == "gguf":
        return GGUFReader(Path(model), context_tokens)
    raise InputError(f"a reader is {KINDS}, not {name!r}")
