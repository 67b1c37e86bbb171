"""Words in session files that no person and no model said: notes that a coding agent's program sends along.

They come in tags (`<system-reminder>`, `<environment_context>`), or as lines that the program marks for itself. A tag
counts where a text or a line begins with it; in a tool's result only a reminder at its end does, since a file or a page
that an agent reads may hold any of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["ABOUT", "own_words", "program_line"]

ABOUT = "From the memory of earlier sessions. If you have its tools, recall and open find more."
AGENTS, AGENTS_END = "# AGENTS.md instructions", "</INSTRUCTIONS>"
TYPED = "command-args"  # what a person typed behind a slash command

MARKS = {"isMeta": "note", "isCompactSummary": "summary", "isApiErrorMessage": "API error"}  # of Claude Code's lines
CLAUDE = (
    "system-reminder|command-name|command-message|command-contents|command-args|local-command-caveat"
    "|local-command-stdout|local-command-stderr|task-notification|user-prompt-submit-hook"
)
CODEX = (
    "environment_context|user_instructions|skills_instructions|plugins_instructions|apps_instructions"
    "|permissions instructions|collaboration_mode|personality_spec|model_switch|realtime_conversation|turn_aborted"
    "|subagent_notification"
)
GEMINI = "session_context|hook_context"
_TAGS = f"{CLAUDE}|{CODEX}|{GEMINI}"
_OPENED = re.compile(rf"^[ \t]*<({_TAGS})>", re.MULTILINE)
_NEXT = re.compile(rf"\s*<({_TAGS})>")  # right behind another
STOPPED = re.compile(r"\[Request interrupted by user[^\]]*\]")
REMINDER = ("<system-reminder>", "</system-reminder>")


def program_line(line: Mapping[str, Any]) -> str | None:
    """Return what a line is by its program's mark; None for one without a mark, or with a call's result.

    >>> program_line({"type": "user", "isMeta": True})
    'note'
    """
    message = line.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list) and any(isinstance(part, Mapping) and "tool_use_id" in part for part in content):
        return None
    return next((name for mark, name in MARKS.items() if line.get(mark) is True), None)


def own_words(item: Mapping[str, Any], left_out: Counter[str]) -> dict[str, Any]:
    """Return a message of Anthropic's, or an item of the Responses API, without its program's words, counted by tag."""
    if item.get("type") in ("function_call_output", "custom_tool_call_output"):
        return {**item, "output": _of_result(item.get("output"), left_out)}
    if item.get("role") == "assistant" or "content" not in item:
        return dict(item)
    content = item["content"]
    if isinstance(content, str):
        return {**item, "content": _of_text(content, left_out)}
    if not isinstance(content, list):
        return dict(item)
    parts = [_of_part(part, left_out) for part in content]
    return {**item, "content": [part for part in parts if part is not None]}


def _of_part(part: Any, left_out: Counter[str]) -> Any:
    """Return what is left of a part of a message; None where that is nothing."""
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "tool_result":
        return {**part, "content": _of_result(part.get("content"), left_out)}
    if not isinstance(part.get("text"), str):
        return part
    text = _of_text(part["text"], left_out)
    return {**part, "text": text} if text else None


def _of_text(text: str, left_out: Counter[str]) -> str:
    """Return a text without its notes; the text itself where it has none."""
    if text.startswith(ABOUT) or STOPPED.fullmatch(text):
        left_out["greeting" if text.startswith(ABOUT) else "interruption"] += 1
        return ""
    kept: list[str] = []
    at = 0
    if text.startswith(AGENTS) and (end := text.find(AGENTS_END)) >= 0:
        left_out["AGENTS.md"] += 1
        at = end + len(AGENTS_END)
    unclosed: set[str] = set()  # so that no end is looked for twice
    found = _NEXT.match(text, at) or _OPENED.search(text, at)
    while found is not None:
        tag, end = found[1], -1
        if tag not in unclosed:
            end = text.find(f"</{tag}>", found.end())
        if end < 0:
            unclosed.add(tag)
            found = _OPENED.search(text, found.end())
            continue
        kept.append(text[at : found.start()])
        if tag == TYPED:
            kept.append(f"\n{text[found.end() : end].strip()}\n")
        else:
            left_out[f"<{tag}>"] += 1
        at = end + len(f"</{tag}>")
        found = _NEXT.match(text, at) or _OPENED.search(text, at)
    return "".join([*kept, text[at:]]).strip() if at else text


def _of_result(result: Any, left_out: Counter[str]) -> Any:
    """Return a tool's result without the reminders at its end."""
    if isinstance(result, list):
        with_texts = (isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in result)
        return [
            {**part, "text": _of_result(part["text"], left_out)} if has_text else part
            for part, has_text in zip(result, with_texts, strict=True)
        ]
    if not isinstance(result, str):
        return result
    while (kept := result.rstrip()).endswith(REMINDER[1]) and (begin := kept.rfind(REMINDER[0])) >= 0:
        left_out[REMINDER[0]] += 1
        result = kept[:begin].rstrip()
    return result
