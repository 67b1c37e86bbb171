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
WORDS = ("author_name", "pretext", "title", "text", "value", "url", "fields", "elements", "blocks", "message_blocks",
         "message")  # fmt: skip
INLINE = ("rich_text_section", "rich_text_quote", "rich_text_preformatted")  # types of what stands in one line
PLAIN = ("plain_text", "text")  # types of what has no markup
DEEPEST = 20  # blocks in blocks
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
    """Yield the texts of a message: its own, of blocks what that does not say, of attachments, and the files' names."""
    text = names.text_in(entry, "comment", "comment") or names.text_in(entry, "text")
    yield text
    for block in mappings_in(entry, "blocks"):
        if not text or block.get("type") != "rich_text":
            words = _words(block, names)
            yield "" if words in text else words
    for attachment in mappings_in(entry, "attachments"):
        yield _words(attachment, names) or names.text_in(attachment, "fallback")
    for file in [*mappings_in(entry, "files"), *mappings_in([entry.get("file")])]:
        yield f"file {first_name(file.get('title'), file.get('name'))}"


def _words(value: Any, names: Names, depth: int = 0) -> str:
    """Return the words in a block or an attachment, and in what is inside; "" in one deeper than any people write."""
    if isinstance(value, list):
        return "\n".join(filter(None, (_words(inner, names, depth) for inner in value)))
    if not isinstance(value, Mapping) or depth > DEEPEST:
        return ""
    if value.get("type") == "user":
        return f"@{names.people.get(str(value.get('user_id')), 'somebody')}"
    if value.get("type") in INLINE:
        return "".join(_words(inner, names, depth + 1) for inner in mappings_in(value, "elements"))
    said: list[str] = []
    for key in WORDS:
        if not isinstance(value.get(key), str):
            said.append(_words(value.get(key), names, depth + 1))
        else:
            said.append(value[key] if value.get("type") in PLAIN else names.text_in(value, key))
    between = ": " if "value" in value else "\n"
    return between.join(filter(None, said))
