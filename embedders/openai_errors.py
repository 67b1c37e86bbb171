"""What went wrong at an embeddings API, and what to do about it, without ever showing the key."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

__all__ = ["address", "explained"]

DETAIL = 300  # characters of a server's own message that are quoted
LEAST_SECRET = 6  # shorter "keys" are words such as "none", and striking them out would garble messages

# By HTTP status.
_ADVICE = {
    400: "the request was refused",
    403: "this API key may not use the model: see the permissions of the key and its project",
    404: "there is no such model, or no embeddings API at this address (OPENAI_BASE_URL, base_url=)",
    413: "the request is too large for this server: pass a smaller batch_size= or max_input_tokens=",
    422: "the request was refused: a smaller batch_size= or max_input_tokens=, or no dimensions=, may help",
    429: "there were too many requests, or tokens, in too short a time: raise max_retries=, or ask for a higher limit",
}


def explained(error: Exception, who: str, client: Any) -> str:
    """The message for `error`, which the `client` raised when `who` was asked.

    Errors are told apart by the names of their classes, not by the classes: the client may come from any version of
    openai, or from another package.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(error, "status_code", None)
    tries = f"after up to {getattr(client, 'max_retries', 0)} repetitions"
    if "APITimeoutError" in kinds:
        return f"{who} did not answer within {getattr(client, 'timeout', '?')} s, {tries}: raise timeout="
    if status == 401:  # without the server's own words: many echo the key, or a part of it
        return f"{who}: the API key was refused: set OPENAI_API_KEY to another, or pass api_key="
    if "APIConnectionError" in kinds:
        advice = "cannot be reached: is it running, and is its address (OPENAI_BASE_URL, base_url=) right?"
    elif getattr(error, "code", None) == "insufficient_quota":
        advice = "the account's quota is used up, see its billing"
    elif status is not None:
        advice = f"{_ADVICE.get(status, 'the server failed')} (HTTP {status}, {tries})"
    else:
        advice = f"what came back is not what the embeddings API answers ({type(error).__name__})"
    return f"{who}: {advice}: {_without_key(_detail(error), client)[:DETAIL]}"


def address(client: Any) -> str:
    """Where the server is, without a user and a password that may stand in the URL."""
    parts = urlsplit(str(getattr(client, "base_url", "")))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _detail(error: Exception) -> str:
    body = getattr(error, "body", None)
    return str((body.get("message") if isinstance(body, dict) else None) or body or error.__cause__ or error)


def _without_key(text: str, client: Any) -> str:
    key = str(getattr(client, "api_key", "") or "").strip()
    return text.replace(key, "[key]") if len(key) >= LEAST_SECRET else text
