"""The client of OpenAI's API, and of servers that speak it, with messages for its errors.

Errors say what to do, and never show the key, nor the texts that were sent.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from tinymem.errors import InputError, MissingExtraError, TinymemError
from tinymem.steps.checks import check_non_negative_int, check_str

__all__ = ["address", "checked_client", "connected", "explained", "usual_address"]

OPENAI = "https://api.openai.com/v1"
DETAIL = 300  # characters of a server's own message that are quoted
STRETCH = 16  # characters of a sent text in a server's message that are no accident
LEAST_SECRET = 6  # shorter "keys" are words such as "none", and striking them out would garble messages


def checked_client(client: Any, base_url: str | None, api_key: str | None) -> Any:
    """Check a `client` that a user brought, or None; InputError for an asynchronous one, or one beside an address."""
    if client is not None and (base_url or api_key):
        raise InputError("the client has its own address and key: pass either client= or base_url= and api_key=")
    if type(client).__name__.startswith("Async"):
        raise InputError("the client must be a synchronous one, as openai.OpenAI")
    return client


def connected(
    kind: str,
    name: str,
    base_url: str | None,
    api_key: str | None,
    timeout: float,
    max_retries: int,
    keyless: type[TinymemError],
) -> Any:
    """Make a client of the openai package, for the adapter of this `kind` and `name`.

    An address or a key that is None comes from OPENAI_BASE_URL or OPENAI_API_KEY.

    Raises:
        MissingExtraError: The package is not installed.
        TinymemError: There is no key; the error is of the class `keyless`.
    """
    if importlib.util.find_spec("openai") is None:
        raise MissingExtraError(f"the {kind} {name}", "openai")
    base_url = None if base_url is None else check_str("base_url", base_url)
    api_key = None if api_key is None else check_str("api_key", api_key)
    check_non_negative_int("max_retries", max_retries)
    if not (api_key or os.environ.get("OPENAI_API_KEY", "")).strip():
        raise keyless(
            f"{name} needs an API key: set OPENAI_API_KEY, or pass api_key= (any text will do for a server of your own "
            "that asks for none)"
        )
    from openai import OpenAI

    return OpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=max_retries)


def explained(error: Exception, who: str, client: Any, api: str = "embeddings", sent: Sequence[str] = ()) -> str:
    """Write the message for an `error` that the `client` raised in a request of `who` to this `api`.

    It has the status, the server's own words, and what to check. The words are left out where they quote the texts that
    were `sent`, and where a key was refused: many servers echo it, or a part of it.
    """
    status = getattr(error, "status_code", None)
    what = type(error).__name__ if status is None else f"HTTP {status}"
    body = getattr(error, "body", None)
    words = str((body.get("message") if isinstance(body, dict) else None) or body or error.__cause__ or error)
    key = str(getattr(client, "api_key", "") or "").strip()
    words = words.replace(key, "[key]") if len(key) >= LEAST_SECRET else words
    words = "the API key was refused" if status == 401 else _unquoted(words[:DETAIL], sent)
    return (
        f"{who} failed ({what}, after up to {getattr(client, 'max_retries', 0)} repetitions): {words}: check that a "
        f"server with the {api} API runs at this address (OPENAI_BASE_URL, base_url=), the model's name, the key and "
        "its limits (OPENAI_API_KEY, api_key=), timeout=, max_input_tokens= and batch_size="
    )


def address(client: Any) -> str:
    """Return the address of the server, without a user and a password that may stand in the URL."""
    return _bare(str(getattr(client, "base_url", "")))


def usual_address() -> str:
    """Return the address in OPENAI_BASE_URL, or else OpenAI's own."""
    return _bare(os.environ.get("OPENAI_BASE_URL") or OPENAI)


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _unquoted(text: str, sent: Sequence[str]) -> str:
    """Return `text`, unless it repeats a stretch of the texts that were sent."""
    stretches = {text[place : place + STRETCH] for place in range(max(1, len(text) - STRETCH + 1))}
    whole = {short for short in sent if LEAST_SECRET <= len(short) < STRETCH}
    everything = "\0".join(sent)
    if any(short in text for short in whole) or any(stretch in everything for stretch in stretches):
        return f"({len(text)} characters that quote what was sent)"
    return text
