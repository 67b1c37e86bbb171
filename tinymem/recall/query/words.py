"""The words that say what an agent is after: of a stretch of its run what was said, and the arguments of its calls.

A stretch is written one message after the other, each on lines of its own: its words, a space, and its calls as
`name({"argument": ...})`; so a message without a call ends in one space. Outputs of calls are most of the text and say
little of what is wanted next: so behind calls as many messages are left out as there were calls. The newest outputs
stay where they are short, since such a one may say what to do next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

from tinymem.steps.step import Part, Step

__all__ = ["newest_call", "stretch_of", "words_of"]

MOST = 600  # characters of each message, and of the arguments of each call, that say what is wanted
SHORT = 400  # characters of an output that is read as a message
SHOWN = 1_000  # characters at either end of a longer text that stand in a stretch
TASK = 120  # characters of the task beside a stretch: more says what is next less well than the stretch does
NESTED = 100  # values of one call's arguments that are read

_CALL = re.compile(r"(?:(?<=\s)|^)[A-Za-z_][\w.:-]{0,80}\((?=\{\s*(?:\"|\}))", re.MULTILINE)
_NEXT_CALL = re.compile(rf"\) {_CALL.pattern}")  # from the end of the arguments on
_VALUE = re.compile(r"(?<=[:,\[ ])\"((?:[^\"\\]|\\.)*)(?:\"(?!\s*:)|\\?$)")  # of arguments that were cut off
_END = re.compile(r"(?:^|(?<=\S)) $", re.MULTILINE)  # of a message
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[\"\\/bfnrt])")


def stretch_of(steps: Iterable[Step], task: str = "") -> str:
    r"""Write steps as a stretch that `words_of` reads, behind the words of the task.

    >>> from tinymem import ActionStep
    >>> stretch_of([ActionStep("Where?", tool_name="grep", tool_args={"n": 1}, observation="8443")], "Find it.")
    'Find it. \nWhere? grep({"n": 1})\n8443 '
    """
    messages = [f"{_shown(task[:TASK])} "] if task else []
    for step in steps:
        for _, parts in groupby(step.parts(), attrgetter("message")):
            messages.append(_message([*parts]))
    return "\n".join(messages)


def _message(parts: list[Part]) -> str:
    said = "\n".join(_shown(part.text) for part in parts if part.kind not in ("call", "code"))
    calls = (
        part.text.replace("\n", " ") if part.kind == "call" else f"run({json.dumps({'code': part.text})})"
        for part in parts
        if part.kind in ("call", "code")
    )
    return f"{said} {' '.join(calls)}"


def _shown(text: str) -> str:
    """Return a text, or its beginning and end: one long listing must not drown the rest. No line ends in a space."""
    text = "\n".join(map(str.rstrip, text.splitlines())).rstrip()
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}\n{text[-SHOWN:]}"


def words_of(stretch: str) -> str:
    r"""Return the words of people and agent, and the string arguments of calls; "" where there is no call.

    >>> words_of('Where is the port set? grep({"pattern": "PORT"})\n8443 settings.py \nNow the server. open({"n": 1})')
    'Where is the port set?\nPORT\nNow the server.\n1'
    """
    if _CALL.search(stretch) is None:
        return ""
    found: list[str] = []
    said: list[str] = []  # lines since the last call
    owed = 0  # outputs that come before more words
    for line in stretch.split("\n"):
        call = _CALL.search(line)
        if call is None:
            said.append(line)
            continue
        found.append(_words(owed, [*said, line[: call.start()]]))
        said, owed = [], 0
        while call is not None:
            arguments, end = _arguments(line, call.end())
            found.append(arguments)
            owed += 1
            call = _NEXT_CALL.match(line, end)
    found.append(_words(owed, said, is_end=True))
    return "\n".join(text for text in found if text.strip())


def newest_call(stretch: str) -> str:
    r"""Return the words of the newest line that calls a tool; "" where there is none.

    >>> newest_call('Where? grep({"pattern": "PORT"})\n8443 settings.py \nNow the server. open({"n": 1})\nOpen. ')
    'Now the server.\n1'
    """
    lines = ["", *filter(_CALL.search, stretch.split("\n"))]
    return words_of(lines[-1])


def _words(owed: int, lines: list[str], is_end: bool = False) -> str:
    """Return what is said behind so many outputs, and at the end of the stretch those that are short."""
    texts = [text.strip() for text in _END.split("\n".join(lines))]
    short = [text for text in texts[:owed] if is_end and len(text) <= SHORT]
    return "\n".join(filter(None, (*short, *(text[:MOST] for text in texts[owed:]))))


def _arguments(line: str, start: int) -> tuple[str, int]:
    """Return the texts and numbers among the arguments of a call, and the place of their end."""
    try:
        value, end = json.JSONDecoder().raw_decode(line, start)
    except (ValueError, RecursionError):
        cut = " ".join(_VALUE.findall(line, start))
        return _ESCAPE.sub(lambda escape: str(json.loads(f'"{escape[0]}"')), cut)[:MOST], len(line)
    texts: list[str] = []
    left: list[Any] = [value]
    while left and len(texts) < NESTED:
        value = left.pop()
        if isinstance(value, (dict, list)):
            left += reversed(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            texts.append(str(value))
    return " ".join(texts)[:MOST], end
