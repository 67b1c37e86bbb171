"""Cursor's database, `state.vscdb`: a row for a conversation (`composerData:ID`), or a message (`bubbleId:ID:...`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinymem.errors import InputError, StorageError
from tinymem.runs.exports.chats import BRANCH, Chat, Conversation, Entry, as_mapping, first_name, mappings_in
from tinymem.stores.foreign import open_table

__all__ = ["read_cursor"]

LATEST = 10**15  # milliseconds since 1970


def read_cursor(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a database; InputError for one that is none of Cursor's."""
    try:
        with open_table(path, "cursorDiskKV") as table:
            keys = [*table]
            stored = Counter(key.split(":")[1] for key in keys if key.startswith("bubbleId:"))
            for key in (key for key in keys if key.startswith("composerData:")):
                id = key.partition(":")[2]
                yield _read_conversation(id, *_bubbles(table, id, _parsed(table.get(key)), stored[id]))
    except StorageError as error:
        raise InputError(f"no state.vscdb of Cursor: {error}") from error


def _bubbles(table: Mapping[str, Any], id: str, composer: Entry, stored: int) -> tuple[list[Entry], int]:
    """Return the messages of a conversation in order, and how many more there are; older ones are in its own row."""
    if inside := mappings_in(composer.get("conversation")):
        return inside, 0
    ids = [header.get("bubbleId") for header in mappings_in(composer.get("fullConversationHeadersOnly"))]
    return [_parsed(table.get(f"bubbleId:{id}:{bubble}")) for bubble in ids], max(stored - len(ids), 0)


def _read_conversation(id: str, bubbles: list[Entry], left: int) -> Conversation:
    chat = Chat()
    chat.skipped.update({BRANCH: left} if left else {})
    for at, bubble in enumerate(bubbles):
        text, kind, tool = str(bubble.get("text") or ""), bubble.get("type"), as_mapping(bubble.get("toolFormerData"))
        made = bubble.get("createdAt")
        when = (
            made / 1_000 if isinstance(made, (int, float)) and made < LATEST else made
        )  # older versions count milliseconds
        if isinstance(tool.get("name"), str):
            given = tool.get("rawArgs") or tool.get("params") or "{}"
            call = chat.call(first_name(tool.get("toolCallId"), f"{id}-{at}"), tool["name"], given, when, text)
            if (result := tool.get("result")) is not None:
                chat.result(call, result if isinstance(result, str) else json.dumps(result, ensure_ascii=False), when)
        elif text.strip() and kind in (1, 2):
            chat.say("user" if kind == 1 else "assistant", text, when)
        else:
            chat.skipped["thinking" if bubble.get("thinking") else "message without a text"] += 1
    return chat.done(f"cursor/{first_name(id)}")


def _parsed(value: Any) -> Entry:
    try:
        return as_mapping(json.loads(value))
    except (ValueError, TypeError, RecursionError):
        return {}
