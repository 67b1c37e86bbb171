"""Single content blocks of Anthropic's Messages API, read as parts of a chat's message, and made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from tinymem.errors import MessageError, safe_repr
from tinymem.messages.calls import name_and_arguments, raw_calls
from tinymem.messages.formats.parts import (
    blocks_of,
    data_of,
    decoded_text,
    joined,
    mark,
    rewritten,
    said,
    strings,
    text_part,
    texts_of,
)
from tinymem.messages.validity import file_of, image_of
from tinymem.steps.content import as_parts, as_text, encodable, to_json
from tinymem.steps.step import Message

__all__ = ["THINKING", "call_of", "is_server_result", "made_of", "parts_in", "result_of", "shortened"]

Block = dict[str, Any]
THINKING = ("thinking", "redacted_thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


# -- read -------------------------------------------------------------------------------------------------------------


def is_server_result(kind: Any) -> bool:
    """Return True for the type of a result of a tool that Anthropic ran."""
    return isinstance(kind, str) and kind.endswith("_tool_result")


def parts_in(blocks: Iterable[Block], index: int | None) -> list[Message]:
    """Return the parts of a chat's message that say what all blocks say; errors as in `parts_of`."""
    return [*chain.from_iterable(parts_of(block, index) for block in blocks)]


def parts_of(block: Block, index: int | None = None) -> list[Message]:
    """Return the parts of a chat's message that say what `block` says: one text at most, and files.

    Raises:
        MessageError: The type of the block is not known.
    """
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return [text_part(block["text"])]
    if kind in THINKING:
        return []
    if kind == "image":
        return [image_of(block) or mark("image", _source(block).get("file_id"))]
    if kind == "document":
        return _document(block, index)
    if kind in _SERVER_CALLS:
        return [text_part(f"{block.get('name')}({to_json(block.get('input'))})")]
    if kind in ("search_result", "tool_reference", "compaction", "browser_state") or is_server_result(kind):
        return [text_part(joined(block))]
    if kind == "container_upload":
        return [mark("container_upload", block.get("file_id"))]
    raise MessageError(
        f"a block of the type {safe_repr(kind)}, which is unknown here: leave it out, or name another format", index
    )


def _source(block: Block) -> Mapping[str, Any]:
    source = block.get("source")
    return source if isinstance(source, Mapping) else {}


def _document(block: Block, index: int | None) -> list[Message]:
    """Return a document: a PDF as a file, a text as text."""
    source, title = _source(block), block.get("title")
    if source.get("type") == "base64" and (file := file_of(block)):
        return [file]
    if source.get("type") in ("text", "content"):
        parts = parts_in(blocks_of(source.get("data") or source.get("content") or "", index), index)
        text = "\n".join([*strings(title), *texts_of(parts)])
        return [*([text_part(text)] if text else []), *(part for part in parts if part["type"] != "text")]
    return [mark("document", title, source.get("url"), source.get("file_id"))]


def call_of(block: Block, index: int) -> Message:
    """Return a `tool_use` as a call of a chat."""
    if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
        raise MessageError("a tool_use must have an id and a name", index)
    arguments = to_json(block.get("input") or {})
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def result_of(block: Block, index: int) -> Message:
    """Return a `tool_result` as a tool's message of a chat."""
    if not isinstance(block.get("tool_use_id"), str):
        raise MessageError("a tool_result must have a tool_use_id", index)
    blocks = blocks_of(block.get("content") or "", index)
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said(parts_in(blocks, index))}


# -- shorten ----------------------------------------------------------------------------------------------------------


def shortened(blocks: Sequence[Block], message: Message) -> list[Block]:
    """Return `blocks` as the message says them now; tools that Anthropic ran become text."""
    content = message.get("content")
    if blocks and blocks[0]["type"] == "tool_result":
        before = blocks[0].get("content")
        new = _rewritten(before, content) if isinstance(before, list) else as_text(content)
        return [{**blocks[0], "content": new}]
    said = [block for block in blocks if block["type"] != "tool_use"]
    return [*_rewritten(said, content), *map(_tool_use, raw_calls(message))]


def _rewritten(blocks: Sequence[Block], content: Any) -> list[Block]:
    plain = chain.from_iterable(parts_of(block) if _is_hosted(block["type"]) else [block] for block in blocks)
    return rewritten(plain, parts_of, texts_of(content), text_part)


def _is_hosted(kind: str) -> bool:
    return kind in _SERVER_CALLS or is_server_result(kind)


# -- made of messages -------------------------------------------------------------------------------------------------


def made_of(message: Message) -> list[Block]:
    """Make blocks of a message of a chat.

    >>> made_of({"role": "tool", "tool_call_id": "call_1", "content": "ok"})
    [{'type': 'tool_result', 'tool_use_id': 'call_1', 'content': 'ok'}]
    """
    content = message.get("content")
    if message["role"] == "tool":
        result = content if isinstance(content, str) else _blocks(content)
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": result}]
    blocks = _blocks(content)
    return [*blocks, *map(_tool_use, raw_calls(message))] if message["role"] == "assistant" else blocks


def _blocks(content: Any) -> list[Block]:
    found = map(_block, as_parts(content or []))
    return [block for block in found if block["type"] != "text" or block["text"].strip()]


def _block(part: Mapping[str, Any]) -> Block:
    if part.get("type") == "image_url":
        url = part["image_url"]["url"]
        if (data := data_of(url)) is None:
            return {"type": "image", "source": {"type": "url", "url": url}}
        source = {"type": "base64", "media_type": data.kind, "data": data.base64}
        return {"type": "image", "source": source} if data.kind in _IMAGES else mark("image", data.kind)
    if part.get("type") == "file":
        return _file(part["file"])
    if part.get("type") == "input_audio":
        return mark("audio", part["input_audio"].get("format"))
    return text_part(as_text([part]))


def _file(file: Mapping[str, Any]) -> Block:
    data, name = data_of(file.get("file_data")), file.get("filename")
    title = {"title": name} if name else {}
    if data and data.kind == "application/pdf":
        source = {"type": "base64", "media_type": data.kind, "data": data.base64}
        return {"type": "document", "source": source, **title}
    if data and (text := decoded_text(data)) is not None and text.strip():
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **title}
    return mark("file", name, file.get("file_id"))


def _tool_use(call: Mapping[str, Any]) -> Block:
    name, arguments = name_and_arguments(call)
    input = {"input": arguments} if call.get("type") == "custom" else _object(arguments)
    return {"type": "tool_use", "id": call["id"], "name": name, "input": input}


def _object(arguments: str) -> dict[str, Any]:
    """Return the object that arguments are the text of; other text is wrapped in one."""
    try:
        value = json.loads(arguments)
        if isinstance(value, dict):
            return json.loads(encodable(to_json(value))) if "\\u" in arguments else value
    except (ValueError, RecursionError):
        pass
    return {"input": arguments}
