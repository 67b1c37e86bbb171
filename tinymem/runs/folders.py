"""Exports that are more than one file of JSON: zip archives, folders, and Cursor's database."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinymem.errors import InputError, StorageError
from tinymem.runs.exports import Conversation, conversations_of, slack_messages
from tinymem.stores.foreign import open_table
from tinymem.stores.unused import MAGIC

__all__ = ["conversations_in", "is_export"]

LARGEST = 2 << 30  # bytes of one file of an archive: a bomb must not fill the memory


def is_export(path: Path) -> bool:
    """Return True for a folder, a zip archive or a database."""
    try:
        if path.is_dir():
            return True
        if path.is_fifo():  # what is read of it is gone
            return False
        with path.open("rb") as stream:
            begin = stream.read(len(MAGIC))
    except (OSError, ValueError):  # ValueError: a path with NUL
        return False
    return begin == MAGIC or (begin[:2] == b"PK" and zipfile.is_zipfile(path))


def conversations_in(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of an export.

    Raises:
        InputError: It is none that is known, or is damaged.
    """
    if path.is_dir():
        yield from _of_tree(path, path)
    elif zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                yield from _of_tree(zipfile.Path(archive), path)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged, or with a password
            raise InputError(f"{path} cannot be read: {error}") from error
    else:
        yield from _of_cursor(path)


# -- ChatGPT, Claude.ai and Slack -------------------------------------------------------------------------------------


def _of_tree(root: Any, path: Path) -> Iterator[Conversation]:
    """Read a folder, or a `zipfile.Path`, which reads as one."""
    files = sorted((one for one in root.iterdir() if one.name.endswith(".json")), key=lambda one: str(one.name))
    chats = [one for one in files if one.name.startswith("conversations")]
    for file in chats:
        if (found := conversations_of(_value(file, path), file.name)) is None:
            raise InputError(f"{path}, {file.name}: has no conversations of ChatGPT or Claude.ai")
        yield from found
    if chats:
        return
    if "users.json" not in {one.name for one in files}:
        wanted = "conversations.json (ChatGPT, Claude.ai) or users.json (Slack)"
        raise InputError(f"{path} is no export that is known: it should have {wanted}")
    users = _value(root / "users.json", path)
    names = {str(user.get("id")): _name_of(user) for user in users if isinstance(user, Mapping)}
    for channel in sorted((one for one in root.iterdir() if one.is_dir()), key=lambda one: str(one.name)):
        days = sorted((one for one in channel.iterdir() if one.name.endswith(".json")), key=lambda one: str(one.name))
        entries = [entry for day in days if isinstance(said := _value(day, path), list) for entry in said]
        skipped: Counter[str] = Counter()
        if messages := slack_messages(entries, names, skipped):
            yield Conversation(f"slack/{channel.name}", messages, skipped)


def _name_of(user: Mapping[str, Any]) -> str:
    profile = user.get("profile")
    shown = profile.get("display_name") if isinstance(profile, Mapping) else None
    return str(shown or user.get("real_name") or user.get("name") or user.get("id"))


def _value(file: Any, path: Path) -> Any:
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise InputError(f"{path}, {file.name}: is longer than {LARGEST} bytes")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, {file.name}: not valid JSON: {error}") from error
    except OSError as error:
        raise InputError(f"{path}, {file.name} cannot be read: {error.strerror or error}") from error


# -- Cursor -----------------------------------------------------------------------------------------------------------


def _of_cursor(path: Path) -> Iterator[Conversation]:
    """Read `state.vscdb`: a row for each conversation (`composerData:ID`), and for each message (`bubbleId:ID:...`)."""
    try:
        with open_table(path, "cursorDiskKV") as table:
            for key in [key for key in table if key.startswith("composerData:")]:
                id = key.partition(":")[2]
                yield _conversation(id, _bubbles(table, id, _parsed(table[key])))
    except StorageError as error:
        raise InputError(f"no state.vscdb of Cursor: {error}") from error


def _bubbles(table: Mapping[str, Any], id: str, composer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a conversation, in order; older versions have them in its own row."""
    if isinstance(inside := composer.get("conversation"), list) and inside:
        return [one for one in inside if isinstance(one, Mapping)]
    headers = composer.get("fullConversationHeadersOnly")
    ids = [one.get("bubbleId") for one in headers if isinstance(one, Mapping)] if isinstance(headers, list) else []
    return [_parsed(table.get(f"bubbleId:{id}:{bubble}")) for bubble in ids]


def _conversation(id: str, bubbles: list[Mapping[str, Any]]) -> Conversation:
    messages: list[dict[str, Any]] = []
    skipped: Counter[str] = Counter()
    for at, bubble in enumerate(bubbles):
        text, kind, tool = str(bubble.get("text") or ""), bubble.get("type"), bubble.get("toolFormerData")
        made = bubble.get("createdAt")
        made = made / 1_000 if isinstance(made, (int, float)) else made  # older versions count milliseconds
        when = {"timestamp": made} if made else {}
        if isinstance(tool, Mapping) and isinstance(tool.get("name"), str):
            call = str(tool.get("toolCallId") or f"{id}-{at}")
            function = {"name": tool["name"], "arguments": str(tool.get("rawArgs") or tool.get("params") or "{}")}
            calls = [{"id": call, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": calls, **when})
            messages.append({"role": "tool", "tool_call_id": call, "content": str(tool.get("result") or ""), **when})
        elif text.strip() and kind in (1, 2):
            messages.append({"role": "user" if kind == 1 else "assistant", "content": text, **when})
        else:
            skipped["message without a text"] += 1
    return Conversation(f"cursor/{id}", messages, skipped)


def _parsed(value: Any) -> Mapping[str, Any]:
    try:
        parsed = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return {}
    return parsed if isinstance(parsed, Mapping) else {}
