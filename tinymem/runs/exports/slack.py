"""Slack's export: the messages of a channel as people read them, each under the name of who said it.

What Slack escaped (`&lt;`) is put back once and last, so that what somebody typed never becomes a mention or a link.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from tinymem.runs.exports.chats import Chat, Entry, ExportedChat, first_name
from tinymem.runs.values import mapping_in, mappings_in, text_in, time_of, value_in

__all__ = ["Names", "is_slack", "read_channel"]

SAID = (None, "bot_message", "thread_broadcast", "reply_broadcast", "me_message", "file_share", "slackbot_response")
SHOWN = ("display_name", "real_name")  # keys of a profile, the first one first
WORDS = ("author_name", "pretext", "title", "text", "value", "fields", "elements", "message_blocks", "message",
         "blocks")  # fmt: skip
PLAIN = ("plain_text", "text")  # types of what has no markup
_MARKUP = re.compile(r"<([^<>|]*)\|?([^<>]*)>")
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
        id = text_in(entry, "user") or text_in(entry, "bot_id")
        if id in self.people:
            return self.people[id]
        profile = map(mapping_in(entry, "user_profile").get, SHOWN)
        name = first_name(*profile, entry.get("username"), value_in(entry, "bot_profile", "name"), id)
        return f"{name} ({id or 'bot'})" if name in self._taken else name

    def read(self, text: str) -> str:
        """Return a text of Slack's as people read it."""
        return html.unescape(_MARKUP.sub(self._said, text))

    def _said(self, markup: re.Match[str]) -> str:
        target, label = markup.groups()
        if target.startswith("@"):
            return f"@{self.people.get(target[1:]) or label or target[1:]}"
        if target.startswith("#"):
            return f"#{self.channels.get(target[1:]) or label or target[1:]}"
        if target.startswith("!"):
            return label or f"@{target[1:]}"
        return f"{label} ({target})" if label and not target.endswith(label) else label or target


def _name_of(user: Entry) -> str:
    profile = map(mapping_in(user, "profile").get, SHOWN)
    return first_name(*profile, *map(user.get, ("real_name", "name", "id")))


def is_slack(value: Any) -> bool:
    """Return True for what looks like a message of a Slack export."""
    return isinstance(value, Mapping) and value.get("type") == "message" and isinstance(value.get("ts"), str)


def read_channel(entries: Iterable[Any], names: Names, session: str) -> ExportedChat:
    """Read the messages of a channel in order, replies behind what they answer; joins and the like are counted."""
    chat = Chat()
    for entry in sorted(entries, key=_place):
        if not is_slack(entry):
            chat.leave_out("entry without a message")
        elif entry.get("subtype") not in SAID:
            chat.leave_out(str(entry["subtype"]))
        else:
            text = "\n".join(dict.fromkeys(filter(None, _parts(entry, names))))
            chat.say("user", text, entry["ts"], name=names.speaker(entry))
            chat.leave_out("message without a text", not text)
    return chat.done(session)


def _place(entry: Any) -> tuple[datetime, datetime]:
    said = time_of(value_in(entry, "ts")) or _BEGIN
    return time_of(value_in(entry, "thread_ts")) or said, said


def _parts(entry: Entry, names: Names) -> Iterator[str]:
    """Yield a message's own text, of blocks what that does not say, and the words of attachments."""
    text = names.read(text_in(entry, "text")).strip()
    yield text
    for block in mappings_in(entry, "blocks"):
        words = _words(block, names)
        if words not in text and not (text and block.get("type") == "rich_text"):
            yield words
    for attachment in mappings_in(entry, "attachments"):
        yield _words(attachment, names) or names.read(text_in(attachment, "fallback"))


def _words(part: Any, names: Names) -> str:
    """Return the words in a block or an attachment, however deep they stand in it."""
    said: list[str] = []
    waiting = [part]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            said.append(names.read(value))
        elif isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, Mapping):
            waiting += [_marked(value, key) for key in reversed(WORDS)]
    return " ".join(said)


def _marked(value: Mapping[str, Any], key: str) -> Any:
    """Return what stands under a key, with Slack's markup."""
    found = value.get(key)
    return html.escape(found, quote=False) if isinstance(found, str) and value.get("type") in PLAIN else found
