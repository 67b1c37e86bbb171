"""Cursor's database, `state.vscdb`: a row for a conversation (`composerData:ID`), or a message (`bubbleId:ID:...`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinymem.errors import InputError, StorageError
from tinymem.runs.exports.chats import BRANCH, Chat, Entry, ExportedChat, as_json, first_name
from tinymem.runs.values import mapping_in, mappings_in, text_in
from tinymem.stores.foreign import open_table

__all__ = ["read_cursor"]

ROLES = {1: "user", 2: "assistant"}


def read_cursor(path: Path) -> Iterator[ExportedChat]:
    """Yield the conversations of a database; InputError for one that is none of Cursor's."""
    try:
        with open_table(path, "cursorDiskKV") as table:
            keys = [*table]
            stored = Counter(key.split(":")[1] for key in keys if key.startswith("bubbleId:"))
            for key in (key for key in keys if key.startswith("composerData:")):
                id = key.partition(":")[2]
                composer = _parsed(table.get(key))
                chat = Chat(bool(composer.get("subagentInfo")))
                yield _read_conversation(id, chat, *_bubbles(table, id, composer, stored[id]))
    except StorageError as error:
        raise InputError(f"no state.vscdb of Cursor: {error}") from error


def _bubbles(table: Mapping[str, Any], id: str, composer: Entry, stored: int) -> tuple[list[Entry], int]:
    """Return the messages of a conversation in order, and how many more there are; older ones are in its own row."""
    if inside := mappings_in(composer, "conversation"):
        return inside, 0
    ids = [header.get("bubbleId") for header in mappings_in(composer, "fullConversationHeadersOnly")]
    return [_parsed(table.get(f"bubbleId:{id}:{bubble}")) for bubble in ids], stored - len(ids)


def _read_conversation(id: str, chat: Chat, bubbles: list[Entry], left: int) -> ExportedChat:
    chat.leave_out(BRANCH, left)
    for place, bubble in enumerate(bubbles):
        text, when, details = text_in(bubble, "text"), bubble.get("createdAt"), mapping_in(bubble, "toolFormerData")
        if tool := text_in(details, "name"):
            given = details.get("rawArgs") or details.get("params") or "{}"
            call = chat.call(first_name(details.get("toolCallId"), f"{id}-{place}"), tool, given, when, text)
            if (result := details.get("result")) is not None:
                chat.result(call, as_json(result), when)
        elif text.strip() and bubble.get("type") in (1, 2):
            chat.say(ROLES[bubble["type"]], text, when)
        else:
            chat.leave_out("thinking" if bubble.get("thinking") else "message without a text")
    return chat.done(f"cursor/{first_name(id)}")


def _parsed(value: Any) -> Entry:
    try:
        return mapping_in(json.loads(value))
    except (ValueError, TypeError, RecursionError):
        return {}
