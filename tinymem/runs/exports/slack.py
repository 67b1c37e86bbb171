"""Slack's export: the messages of a channel as people read them, each under the name of who said it.

What Slack escaped (`&lt;`) is put back once and last, so that what somebody typed never becomes a mention or a link.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tinymem.runs.exports.chats import Entry, ExportedChat, first_name
from tinymem.runs.values import mapping_in, mappings_in, text_in, value_in

__all__ = ["Names", "is_slack", "read_channel"]

SAID = (None, "bot_message", "thread_broadcast", "reply_broadcast", "me_message", "file_share", "file_comment",
        "slackbot_response")  # fmt: skip
SHOWN = ("display_name", "real_name", "name")  # keys of a name, the first one first
WORDS = ("author_name", "pretext", "title", "text", "value", "fields", "elements", "message_blocks", "message",
         "blocks")  # fmt: skip
PLAIN = ("plain_text", "text")  # types of what has no markup
_MARKUP = re.compile(r"<([^<>|]*)\|?([^<>]*)>")


class Names:
    """The names of people and channels in an export; no two people have the same."""

    def __init__(self, users: Any = (), channels: Any = ()) -> None:
        shown = {text_in(user, "id"): _name_of(user, "profile") for user in mappings_in(users)}
        count = Counter(shown.values())
        self.people = {id: f"{name} ({id})" if count[name] > 1 else name for id, name in shown.items()}
        self.channels = {text_in(channel, "id"): first_name(channel.get("name")) for channel in mappings_in(channels)}

    def speaker(self, entry: Entry) -> str:
        """Return who said a message; somebody who is no member has an id, so never the name of one."""
        id = text_in(entry, "user") or text_in(entry, "bot_id")
        if id in self.people:
            return self.people[id]
        profile = "user_profile" if "user_profile" in entry else "bot_profile"
        return f"{first_name(entry.get('username'), _name_of(entry, profile))} ({id or 'bot'})"

    def read(self, text: str) -> str:
        """Return a text of Slack's as people read it."""
        return html.unescape(_MARKUP.sub(self._said, text))

    def _said(self, markup: re.Match[str]) -> str:
        target, label = markup.groups()
        if target.startswith("!"):
            return label or f"@{target[1:]}"
        if target.startswith(("@", "#")):
            names = self.people if target[0] == "@" else self.channels
            return f"{target[0]}{names.get(target[1:]) or label or target[1:]}"
        return f"{label} ({target})" if label and not target.endswith(label) else label or target


def _name_of(entry: Entry, profile: str) -> str:
    return first_name(*map(mapping_in(entry, profile).get, SHOWN), *map(entry.get, SHOWN))


def is_slack(value: Any) -> bool:
    """Return True for what looks like a message of a Slack export."""
    return value_in(value, "type") == "message" and isinstance(value_in(value, "ts"), str)


def read_channel(entries: Iterable[Any], names: Names, session: str) -> ExportedChat:
    """Read the messages of a channel in order, replies behind what they answer; joins and the like are counted."""
    chat = ExportedChat(session)
    for entry in sorted(entries, key=_place):
        if not is_slack(entry):
            chat.leave_out("entry without a message")
        elif entry.get("subtype") not in SAID:
            chat.leave_out(str(entry["subtype"]))
        else:
            text = "\n".join(dict.fromkeys(filter(None, _parts(entry, names))))
            chat.say("user", text, entry["ts"], name=names.speaker(entry))
            chat.leave_out("message without a text", not text)
    return chat


def _place(entry: Any) -> tuple[str, str]:
    said = text_in(entry, "ts")
    return text_in(entry, "thread_ts") or said, said


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


def _words(part: Entry, names: Names) -> str:
    """Return the words in a block or an attachment, however deep they stand in it."""
    said: list[str] = []
    waiting: list[Any] = [part]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            said.append(names.read(value))
        elif isinstance(value, list):
            waiting += reversed(value)
        elif value_in(value, "type") in PLAIN:
            said.append(text_in(value, "text"))
        elif isinstance(value, Mapping):
            waiting += map(value.get, reversed(WORDS))
    return " ".join(filter(None, said))
