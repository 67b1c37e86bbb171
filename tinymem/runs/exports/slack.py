"""Slack's export: the messages of a channel as people read them, each under the name of who said it.

What Slack escaped (`&lt;`) is put back once and last, so that what somebody typed never becomes a mention or a link,
and a name is put in as it is, whatever it holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from tinymem.runs.exports.chats import Chat, Entry, ExportedChat, first_name
from tinymem.runs.values import mapping_in, mappings_in, text_in, time_of, value_in

__all__ = ["Names", "is_slack", "read_channel"]

SAID = ("bot_message", "thread_broadcast", "reply_broadcast", "me_message", "file_share", "file_comment",
        "slackbot_response")  # fmt: skip
SHOWN = ("display_name", "real_name")  # keys of a profile, the first one first
DEEPEST = 10  # blocks in blocks
_MARKUP = re.compile(r"<([^<>]*)>")
_ESCAPED = re.compile("&(lt|gt|amp);")
CHARACTERS = {"lt": "<", "gt": ">", "amp": "&"}
_BEGIN = datetime.min.replace(tzinfo=timezone.utc)


class Names:
    """The names of people and channels in an export; no two people have the same."""

    def __init__(self, users: Iterable[Any] = (), channels: Iterable[Any] = ()) -> None:
        shown = {user["id"]: _name_of(user) for user in mappings_in(users) if isinstance(user.get("id"), str)}
        count = Counter(shown.values())
        self.people = {id: f"{name} ({id})" if count[name] > 1 else name for id, name in shown.items()}
        self.channels = {str(channel.get("id")): first_name(channel.get("name")) for channel in mappings_in(channels)}
        self._taken = set(count)

    def speaker(self, entry: Entry) -> str:
        """Return who said a message: somebody who is no member never has the name of one."""
        id = entry.get("user") or value_in(entry, "comment", "user") or entry.get("bot_id")
        if isinstance(id, str) and id in self.people:
            return self.people[id]
        profile = map(mapping_in(entry, "user_profile").get, SHOWN)
        name = first_name(*profile, entry.get("username"), value_in(entry, "bot_profile", "name"), id)
        return f"{name} ({first_name(id, 'bot')})" if name in self._taken else name

    def text_in(self, value: Any, *path: str) -> str:
        """Return the text under these keys, which is Slack's, as people read it."""
        pieces = _MARKUP.split(text_in(value, *path))
        said = [_unescaped(piece) for piece in pieces[::2]]
        marked = [*map(self._said, pieces[1::2]), ""]
        return "".join(text + mark for text, mark in zip(said, marked, strict=True))

    def _said(self, markup: str) -> str:
        target, _, label = markup.partition("|")
        shown, id = _unescaped(label), target[1:]
        if target.startswith("@"):
            return f"@{self.people.get(id) or shown or id}"
        if target.startswith("#"):
            return f"#{self.channels.get(id) or shown or id}"
        if target.startswith(("!date^", "!subteam^")):
            return shown or id
        if target.startswith("!"):
            return shown if shown.startswith("@") else f"@{shown or id}"
        address = _unescaped(target).removeprefix("mailto:")
        return address if shown in ("", address, _unescaped(target)) else f"{shown} ({address})"


def _name_of(user: Entry) -> str:
    profile = map(mapping_in(user, "profile").get, SHOWN)
    return first_name(*profile, *map(user.get, ("real_name", "name", "id")))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: CHARACTERS[found[1]], text)


def is_slack(value: Any) -> bool:
    """Return True for what looks like a message of a Slack export."""
    return isinstance(value, Mapping) and value.get("type") == "message" and isinstance(value.get("ts"), str)


def read_channel(entries: Iterable[Any], names: Names, session: str) -> ExportedChat:
    """Read the messages of a channel in order, replies behind what they answer; joins and the like are counted."""
    chat = Chat()
    for entry in sorted(entries, key=_place):
        said = mapping_in(entry, "message") if value_in(entry, "subtype") == "message_changed" else mapping_in(entry)
        kind = said.get("subtype")
        if not is_slack(said):
            chat.leave_out("entry without a message")
            continue
        if kind is not None and kind not in SAID:
            chat.leave_out(str(kind))
            continue
        parts = dict.fromkeys(part.strip() for part in _parts(said, names))
        text = "\n".join(filter(None, parts))
        chat.say("user", text, said["ts"], name=names.speaker(said))
        chat.leave_out("message without a text", not text)
    return chat.done(session)


def _place(entry: Any) -> tuple[datetime, datetime]:
    said = time_of(value_in(entry, "ts")) or _BEGIN
    return time_of(value_in(entry, "thread_ts")) or said, said


def _parts(entry: Entry, names: Names) -> Iterator[str]:
    """Yield the texts of a message: its own, of blocks what that does not say, of attachments and of files."""
    text = names.text_in(entry, "comment", "comment") or names.text_in(entry, "text")
    yield text
    for block in mappings_in(entry, "blocks"):
        if not text or block.get("type") != "rich_text":
            shown = _of_block(block, names)
            yield "" if shown in text else shown
    for attachment in mappings_in(entry, "attachments"):
        yield from _of_attachment(attachment, names) or [names.text_in(attachment, "fallback")]
    for file in [*mappings_in(entry, "files"), *mappings_in([entry.get("file")])]:
        yield from _of_file(file, names)


def _of_attachment(attachment: Entry, names: Names) -> list[str]:
    said = [names.text_in(attachment, key) for key in ("author_name", "pretext", "title", "text")]
    for field in mappings_in(attachment, "fields"):
        pair = [names.text_in(field, key) for key in ("title", "value")]
        said.append(": ".join(filter(None, pair)))
    nested = [mapping_in(inner, "message") for inner in mappings_in(attachment, "message_blocks")]
    for holder in (attachment, *nested):
        said += [_of_block(block, names) for block in mappings_in(holder, "blocks")]
    return [*filter(None, said)]


def _of_file(file: Entry, names: Names) -> Iterator[str]:
    title = text_in(file, "title") or text_in(file, "name")
    yield f"file {_unescaped(first_name(title))}" if title else ""
    texts = [text_in(file, key) for key in ("plain_text", "preview_plain_text", "preview")]
    yield next(filter(None, texts), "")
    yield names.text_in(file, "initial_comment", "comment")


def _of_block(block: Entry, names: Names, depth: int = 0) -> str:
    """Return the text of a block, or of an element of one; "" for one that is deeper than any that people write."""
    kind, text = block.get("type"), block.get("text")
    if depth > DEEPEST:
        return ""
    if kind == "channel":
        return f"#{names.channels.get(str(block.get('channel_id')), block.get('channel_id'))}"
    if kind in ("user", "usergroup", "broadcast"):
        id = block.get(f"{kind}_id") or block.get("range")
        return f"@{names.people.get(str(id), id)}"
    if kind == "emoji":
        return f":{block.get('name')}:"
    if kind == "link":
        url = str(block.get("url") or "")
        return f"{text} ({url})" if isinstance(text, str) and text not in ("", url) else url
    if isinstance(text, str):
        return names.text_in(text) if kind == "mrkdwn" else text
    nested = [*mappings_in([text]), *mappings_in(block, "elements"), *mappings_in(block, "fields")]
    said = [_of_block(inner, names, depth + 1) for inner in nested]
    if kind == "rich_text_list":
        is_ordered = block.get("style") == "ordered"
        return "\n".join(f"{f'{place}.' if is_ordered else '-'} {line}" for place, line in enumerate(said, 1))
    if kind in ("rich_text_section", "rich_text_preformatted"):
        return "".join(said)
    if kind == "rich_text_quote":
        return "\n".join(f"> {line}" for line in "".join(said).splitlines())
    return "\n".join(filter(None, said)) or text_in(block, "fallback") or text_in(block, "alt_text")
