"""The message in a line of a session file, whichever agent wrote it, as an item that `tinymem.messages.formats` reads.

Claude Code writes Anthropic's messages, Codex items of the Responses API, Qwen Code the parts of Gemini's API, and
Copilot CLI events of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tinymem.runs.exports.gemini import response_texts
from tinymem.runs.values import mapping_in, mappings_in, text_in, value_in

__all__ = ["item_of"]

COPILOT = ("user.message", "assistant.message", "tool.execution_complete")
GUIDANCE = re.compile(
    r"\n\nTool \"[^\"\n]*\" succeeded\. Additional guidance from postToolUse hooks:\n"
)  # what hooks print


def item_of(line: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the message in a line, an empty one where there is none, and its format.

    >>> item_of({"type": "assistant", "message": {"role": "model", "parts": [{"text": "Port 8443."}]}})
    ({'role': 'assistant', 'content': [{'type': 'text', 'text': 'Port 8443.'}]}, 'anthropic')
    """
    kind, message, attached = line.get("type"), line.get("message"), mapping_in(line, "attachment")
    if kind in ("user", "assistant", "tool_result") and isinstance(value_in(message, "parts"), list):
        role = "assistant" if kind == "assistant" else "user"
        return {"role": role, "content": _blocks_of(mappings_in(message, "parts"))}, "anthropic"
    if kind in ("user", "assistant") and isinstance(message, Mapping):
        return {"role": kind, "content": message.get("content")}, "anthropic"
    if kind == "attachment" and attached.get("type") == "queued_command" and attached.get("commandMode") != "bash":
        return {"role": "user", "content": attached.get("prompt")}, "anthropic"  # or what a subagent reports
    if kind in COPILOT:
        return _item_of_event(str(kind), mapping_in(line, "data")), "anthropic"
    return mapping_in(line, "payload") if kind == "response_item" else {}, "responses"


def _blocks_of(parts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return parts of Gemini's API as blocks of Anthropic's; thoughts, images and files are left out."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        call, answered = mapping_in(part, "functionCall"), mapping_in(part, "functionResponse")
        if call:
            blocks.append(_use_of(call, "id", "args"))
        elif answered:
            seen = "\n".join(response_texts(part))
            blocks.append({"type": "tool_result", "tool_use_id": text_in(answered, "id"), "content": seen})
        elif text_in(part, "text") and not part.get("thought"):
            blocks.append({"type": "text", "text": part["text"]})
    return blocks


def _use_of(call: Mapping[str, Any], id: str, given: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": text_in(call, id), "name": text_in(call, "name"), "input": call.get(given) or {}}


def _item_of_event(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message in an event of Copilot CLI, an empty one for words of its program."""
    if kind == "user.message":
        is_program = data.get("isAutopilotContinuation") or text_in(data, "source").startswith("skill")
        return {} if is_program else {"role": "user", "content": text_in(data, "content")}
    if kind == "assistant.message":
        calls = mappings_in(data, "toolRequests")
        uses = [_use_of(call, "toolCallId", "arguments") for call in calls]
        return {"role": "assistant", "content": [{"type": "text", "text": text_in(data, "content")}, *uses]}
    seen = GUIDANCE.split(text_in(data, "result", "content"))[0] or text_in(data, "error", "message")
    answer = {"type": "tool_result", "tool_use_id": text_in(data, "toolCallId"), "content": seen}
    return {"role": "user", "content": [answer]}
