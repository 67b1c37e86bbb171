"""What Anthropic's Messages API accepts, as one strict function: `broken_rules(request)`.

As in openai_rules: a request goes in, a list of broken rules comes out. Every rule names where it is written down:

    REFERENCE  https://platform.claude.com/docs/en/api/messages, as the package `anthropic` has it in types/*_param.py
    TOOLS      .../docs/en/agents-and-tools/tool-use/implement-tool-use: results right behind their calls, and first
    THINKING   .../docs/en/build-with-claude/extended-thinking: blocks go back complete and unchanged in a tool's turn
    CACHING    .../docs/en/build-with-claude/prompt-caching: up to four marks, none on thinking or on empty text
    VISION     .../docs/en/build-with-claude/vision: types of images, and how large they may be

Where the API is lenient (it combines turns of one role), an own switch makes it strict: `alternate`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from openai_rules import unwritable

__all__ = ["broken_rules"]

# REFERENCE: the keys of each block; "Extra inputs are not permitted" of any other.
KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control", "transformations"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "search_result": {"type", "source", "title", "content", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "server_tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "web_search_tool_result": {"type", "tool_use_id", "content", "cache_control", "caller"},
}
BLOCKS = {
    "user": {"text", "image", "document", "search_result", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"},
    "system": {"text"},
    "tool_result": {"text", "image", "document", "search_result"},
}
IMAGES = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG", "image/gif": b"GIF8", "image/webp": b"RIFF"}
MOST_BYTES = {"image": 5 << 20, "document": 32 << 20}  # VISION; PDFs: 32 MB a request
MOST_IMAGES = 100  # VISION: images of a request
REQUEST = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "temperature", "stream",
    "metadata", "stop_sequences", "cache_control",
}  # fmt: skip
ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def broken_rules(
    request: Mapping[str, Any], issued: Collection[str] | None = None, alternate: bool = False
) -> list[str]:
    """The rules that a request breaks, each with the place where.

    Args:
        request: The body.
        issued: Thinking blocks that the server gave, as JSON; None takes any signature.
        alternate: Refuse two turns of one role in a row, as Bedrock does.
    """
    found = [f"{key}: Extra inputs are not permitted" for key in request if key not in REQUEST]
    messages, system = request.get("messages"), request.get("system", "")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages: at least one message is required"]
    if not isinstance(system, str):
        found += [f"system{fault}" for fault in _blocks("system", system)]
    for at, message in enumerate(messages):
        found += [f"messages.{at}{fault}" for fault in _message(message)]
    if found:
        return found
    turns = _combined(messages)
    found += _order(messages, turns, alternate)
    found += _pairs(turns)
    found += _thinking(turns, issued, bool(request.get("thinking")))
    found += _marks(request)
    found += unwritable("the body", request)
    found += [f"messages: over {MOST_IMAGES} images"] if json.dumps(messages).count('"image"') > MOST_IMAGES else []
    return found


def _message(message: Any) -> Iterator[str]:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant", "system"):
        yield ".role: must be user or assistant"
        return
    yield from (f".{key}: Extra inputs are not permitted" for key in message if key not in ("role", "content"))
    content = message.get("content")
    if isinstance(content, str):
        if not content.strip():
            yield ".content: text content blocks must contain non-whitespace text"
    else:
        yield from (f".content{fault}" for fault in _blocks(message["role"], content))


def _blocks(where: str, content: Any) -> Iterator[str]:
    if not isinstance(content, list) or (not content and where != "tool_result"):
        yield ": must be a text or a list with a block in it"
        return
    for at, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in BLOCKS[where]:
            yield f".{at}: a block of type {kind!r} is not allowed in {where}"
            continue
        yield from (f".{at}.{key}: Extra inputs are not permitted" for key in block if key not in KEYS[kind])
        yield from (f".{at}{fault}" for fault in _block(kind, block))


def _block(kind: str, block: Mapping[str, Any]) -> Iterator[str]:
    if kind == "text" and (not isinstance(block.get("text"), str) or not block["text"].strip()):
        yield ".text: text content blocks must contain non-whitespace text"
    if kind in ("image", "document"):
        yield from (f".source{fault}" for fault in _source(kind, block.get("source")))
    if kind in ("tool_use", "server_tool_use"):
        if not isinstance(block.get("id"), str) or not ID.fullmatch(block["id"]):
            yield ".id: does not match the pattern"
        if not isinstance(block.get("name"), str) or not NAME.fullmatch(block["name"]):
            yield ".name: does not match the pattern"
        if not isinstance(block.get("input"), dict):
            yield ".input: must be an object"
    if kind == "tool_result":
        content = block.get("content", "")
        if not isinstance(block.get("tool_use_id"), str) or not ID.fullmatch(block["tool_use_id"]):
            yield ".tool_use_id: does not match the pattern"
        if not isinstance(content, str):
            yield from (f".content{fault}" for fault in _blocks("tool_result", content))
    for key in {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}.get(kind, ()):
        if not isinstance(block.get(key), str):
            yield f".{key}: Field required"


def _source(kind: str, source: Any) -> Iterator[str]:
    """REFERENCE: base64 of the type that is said, an address, a text, blocks, or the id of a file."""
    known = {"image": ("base64", "url", "file"), "document": ("base64", "url", "file", "text", "content")}[kind]
    if not isinstance(source, dict) or source.get("type") not in known:
        yield f": must have a type of {known}"
    elif source["type"] == "url" and not re.match(r"https?://", str(source.get("url"))):
        yield ".url: must be an address"
    elif source["type"] == "text" and (source.get("media_type") != "text/plain" or not source.get("data")):
        yield ": needs a plain text"
    elif source["type"] == "base64":
        yield from _base64(kind, source)


def _base64(kind: str, source: Mapping[str, Any]) -> Iterator[str]:
    if source.keys() != {"type", "media_type", "data"}:
        yield ": Extra inputs are not permitted"
        return
    begins = IMAGES if kind == "image" else {"application/pdf": b""}
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        yield ".data: invalid base64 data"
        return
    if source["media_type"] not in begins:
        yield f".media_type: must be one of {', '.join(begins)}"
    elif not data.startswith(begins[source["media_type"]]):
        yield ".media_type: does not match the data"
    if len(data) > MOST_BYTES[kind]:
        yield ".data: too large"


def _combined(messages: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """REFERENCE: "Consecutive `user` or `assistant` turns in your request will be combined into a single turn"."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        elif message["role"] != "system":
            turns.append((message["role"], list(blocks)))
    return turns


def _order(messages: Sequence[dict[str, Any]], turns: Sequence[tuple[str, Any]], alternate: bool) -> Iterator[str]:
    """ "first message must use the user role", and strictly "roles must alternate between user and assistant"."""
    if turns and turns[0][0] != "user":
        yield "messages.0: first message must use the user role"
    said = [message for message in messages if message["role"] != "system"]
    if alternate and len(said) != len(turns):
        yield "messages: roles must alternate"


def _pairs(turns: Sequence[tuple[str, list[dict[str, Any]]]]) -> Iterator[str]:
    """TOOLS: "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id`
    found in `tool_result` blocks", "`tool_use` ids must be unique", and results come before everything else."""
    used: set[str] = set()
    open_ids: list[str] = []
    for at, (role, blocks) in enumerate([*turns, ("the end", [])]):
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"turn {at}: tool_result blocks must come first"
        if set(open_ids) - set(results):
            yield f"turn {at}: tool_use ids were found without tool_result blocks immediately after: {open_ids}"
        if set(results) - set(open_ids) or len(set(results)) != len(results):
            yield f"turn {at}: unexpected tool_use_id found in tool_result blocks"
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []
        if len(set(open_ids)) != len(open_ids) or used & set(open_ids):
            yield f"turn {at}: tool_use ids must be unique"
        used |= set(open_ids)


def _thinking(
    turns: Sequence[tuple[str, list[dict[str, Any]]]], issued: Collection[str] | None, on: bool
) -> Iterator[str]:
    """THINKING: "Invalid `signature` in `thinking` block", "`thinking` blocks in the latest assistant message cannot be
    modified", and "Expected `thinking` or `redacted_thinking`, but found `tool_use`" while a tool's turn is open."""
    for at, (_, blocks) in enumerate(turns):
        for block in blocks:
            is_thought = block["type"] in ("thinking", "redacted_thinking")
            if is_thought and issued is not None and json.dumps(block, sort_keys=True) not in issued:
                yield f"turn {at}: Invalid signature in thinking block"
    is_open = bool(turns) and turns[-1][0] == "user" and any(b["type"] == "tool_result" for b in turns[-1][1])
    if on and is_open and len(turns) > 1 and turns[-2][1][0]["type"] not in ("thinking", "redacted_thinking"):
        yield f"turn {len(turns) - 2}: Expected thinking or redacted_thinking, but found {turns[-2][1][0]['type']}"


def _marks(request: Mapping[str, Any]) -> Iterator[str]:
    """CACHING: "A maximum of 4 blocks with cache_control may be provided"."""
    blocks = list(_all_blocks([request.get("system"), request.get("tools"), request["messages"]]))
    marked = [block for block in blocks if block.get("cache_control")]
    if len(marked) + bool(request.get("cache_control")) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}"
    if any(block["cache_control"].get("type") != "ephemeral" for block in marked):
        yield "cache_control.type: must be ephemeral"


def _all_blocks(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for key, one in value.items():
            if key not in ("input", "cache_control"):
                yield from _all_blocks(one)
    elif isinstance(value, list):
        for one in value:
            yield from _all_blocks(one)
