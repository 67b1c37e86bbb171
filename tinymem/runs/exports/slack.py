"""Slack's export: the messages of a channel as people read them, each under the name of who said it.

What Slack escaped (`&lt;`) is put back once and last, so that what somebody typed never becomes a mention or a link,
and a name is put in as it is, whatever it holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tinymem.runs.exports.chats import Chat, Conversation, Entry, as_mapping, as_time, first_name, mappings_in

__all__ = ["Names", "is_slack", "read_channel"]

SAID = ("bot_message", "thread_broadcast", "reply_broadcast", "me_message", "file_share", "file_comment",
        "slackbot_response")  # fmt: skip
DEEPEST = 10  # blocks in blocks
_MARKUP = re.compile(r"<([^<>]*)>")
_ESCAPED = re.compile("&(lt|gt|amp);")
CHARACTERS = {"lt": "<", "gt": ">", "amp": "&"}


class Names:
    """The names of people and channels in an export; no two people have the same."""

    def __init__(self, users: Iterable[Any] = (), channels: Iterable[Any] = ()) -> None:
        known = {str(user["id"]): user for user in mappings_in(users) if isinstance(user.get("id"), str)}
        shown = {id: _name_of(user) for id, user in known.items()}
        count = Counter(shown.values())
        self.people = {id: f"{name} ({id})" if count[name] > 1 else name for id, name in shown.items()}
        self.channels = {str(channel.get("id")): first_name(channel.get("name")) for channel in mappings_in(channels)}
        self._taken = set(count)

    def speaker(self, entry: Entry) -> str:
        """Return who said a message: somebody who is no member never has the name of one."""
        profile, bot = as_mapping(entry.get("user_profile")), as_mapping(entry.get("bot_profile"))
        id = entry.get("user") or as_mapping(entry.get("comment")).get("user") or entry.get("bot_id")
        if isinstance(id, str) and id in self.people:
            return self.people[id]
        name = first_name(profile.get("display_name"), profile.get("real_name"), entry.get("username"),
                          bot.get("name"), id)  # fmt: skip
        return f"{name} ({first_name(id, 'bot')})" if name in self._taken else name

    def text(self, text: str) -> str:
        """Return a text of Slack's as people read it."""
        pieces = _MARKUP.split(text)
        return "".join(self._said(piece) if at % 2 else _unescaped(piece) for at, piece in enumerate(pieces))

    def _said(self, markup: str) -> str:
        target, _, label = markup.partition("|")
        shown, id = _unescaped(label), target[1:]
        if target.startswith("@"):
            return f"@{self.people.get(id) or shown or id}"
        if target.startswith("#"):
            return f"#{self.channels.get(id) or shown or id}"
        if target.startswith("!"):
            if target.startswith(("!date^", "!subteam^")):
                return shown or target[1:]
            return shown if shown.startswith("@") else f"@{shown or id}"
        address = _unescaped(target)
        if not shown or address.removeprefix("mailto:") == shown or address == shown:
            return address.removeprefix("mailto:")
        return f"{shown} ({address.removeprefix('mailto:')})"


def _name_of(user: Entry) -> str:
    profile = as_mapping(user.get("profile"))
    return first_name(profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"),
                      user.get("id"))  # fmt: skip


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: CHARACTERS[found[1]], text)


def is_slack(value: Any) -> bool:
    """Return True for what looks like a message of a Slack export."""
    return isinstance(value, Mapping) and value.get("type") == "message" and isinstance(value.get("ts"), str)


def read_channel(entries: Iterable[Any], names: Names, session: str) -> Conversation:
    """Read the messages of a channel in order, replies behind what they answer; joins and the like are counted."""
    chat = Chat()
    for entry in sorted(entries, key=_place):
        said = as_mapping(entry.get("message")) if as_mapping(entry).get("subtype") == "message_changed" else entry
        kind = as_mapping(said).get("subtype")
        if not is_slack(said):
            chat.skipped["entry without a message"] += 1
        elif kind is not None and kind not in SAID:
            chat.skipped[str(kind)[:40]] += 1
        elif text := "\n".join(dict.fromkeys(filter(None, (part.strip() for part in _parts(said, names))))):
            chat.say("user", text, said["ts"], name=names.speaker(said))
        else:
            chat.skipped["message without a text"] += 1
    return chat.done(session)


def _place(entry: Any) -> tuple[float, float]:
    entry = as_mapping(entry)
    said = as_time(entry.get("ts")) or 0
    return as_time(entry.get("thread_ts")) or said, said


def _parts(entry: Entry, names: Names) -> Iterator[str]:
    """Yield the texts of a message: its own, of blocks what that does not say, of attachments and of files."""
    text = names.text(entry["text"]) if isinstance(entry.get("text"), str) else ""
    comment = as_mapping(entry.get("comment")).get("comment")
    if isinstance(comment, str):
        text = names.text(comment)
    yield text
    for block in mappings_in(entry.get("blocks")):
        if not text or block.get("type") != "rich_text":
            shown = _of_block(block, names)
            yield "" if shown in text else shown
    for attachment in mappings_in(entry.get("attachments")):
        yield from _of_attachment(attachment, names)
    for file in [*mappings_in(entry.get("files")), *mappings_in([entry.get("file")])]:
        yield from _of_file(file, names)


def _of_attachment(attachment: Entry, names: Names) -> Iterator[str]:
    keys = ("author_name", "pretext", "title", "text")
    said = [names.text(attachment[key]) for key in keys if isinstance(attachment.get(key), str)]
    for field in mappings_in(attachment.get("fields")):
        pair = [names.text(field[key]) for key in ("title", "value") if isinstance(field.get(key), str)]
        said.append(": ".join(filter(None, pair)))
    nested = [as_mapping(inner.get("message")) for inner in mappings_in(attachment.get("message_blocks"))]
    for holder in (attachment, *nested):
        said += [_of_block(block, names) for block in mappings_in(holder.get("blocks"))]
    if not any(said) and isinstance(attachment.get("fallback"), str):
        said = [names.text(attachment["fallback"])]
    yield from said


def _of_file(file: Entry, names: Names) -> Iterator[str]:
    if any(isinstance(file.get(key), str) for key in ("title", "name")):
        yield f"file {_unescaped(first_name(file.get('title'), file.get('name')))}"
    texts = (file.get(key) for key in ("plain_text", "preview_plain_text", "preview"))
    yield next((text for text in texts if isinstance(text, str) and text), "")
    comment = as_mapping(file.get("initial_comment")).get("comment")
    yield names.text(comment) if isinstance(comment, str) else ""


def _of_block(block: Entry, names: Names, depth: int = 0) -> str:
    """Return the text of a block, or of an element of one; "" for one that is deeper than any that people write."""
    kind, text = block.get("type"), block.get("text")
    if depth > DEEPEST:
        return ""
    if kind in ("user", "channel", "usergroup", "broadcast"):
        id = block.get(f"{kind}_id") or block.get("range")
        known = names.channels if kind == "channel" else names.people
        return f"{'#' if kind == 'channel' else '@'}{known.get(str(id), id)}"
    if kind == "emoji":
        return f":{block.get('name')}:"
    if kind == "link":
        url = str(block.get("url") or "")
        return f"{text} ({url})" if isinstance(text, str) and text not in ("", url) else url
    if isinstance(text, str):
        return names.text(text) if kind == "mrkdwn" else text
    nested = [*mappings_in([text]), *mappings_in(block.get("elements")), *mappings_in(block.get("fields"))]
    said = [_of_block(inner, names, depth + 1) for inner in nested]
    if kind == "rich_text_list":
        marks = (f"{at}." if block.get("style") == "ordered" else "-" for at in range(1, len(said) + 1))
        return "\n".join(f"{mark} {line}" for mark, line in zip(marks, said, strict=True))
    if kind in ("rich_text_section", "rich_text_preformatted", "rich_text_quote"):
        whole = "".join(said)
        return "\n".join(f"> {line}" for line in whole.splitlines()) if kind == "rich_text_quote" else whole
    fallback = next((block[key] for key in ("fallback", "alt_text") if isinstance(block.get(key), str)), "")
    return "\n".join(filter(None, said)) or fallback
