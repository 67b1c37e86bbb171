"""Sessions of OpenCode, as `opencode export` writes them."""

from __future__ import annotations

from tinymem.runs.exports.chats import Entry, ExportedChat, as_json, first_name
from tinymem.runs.harness import is_own_tool, own_words
from tinymem.runs.values import mapping_in, mappings_in, text_in, value_in

__all__ = ["read_opencode"]

RESULT = "function_call_output"  # an item whose reminders are left out
ENDED = ("completed", "error")  # states of a call


def read_opencode(entry: Entry) -> ExportedChat:
    """Read a session; that of a subagent has its parent's name before its own."""
    parent, session = text_in(entry, "info", "parentID"), first_name(entry["info"]["id"])
    chat = ExportedChat(f"{parent}/{session}" if parent else session, is_spawned=bool(parent))
    for message in mappings_in(entry, "messages"):
        role, when = text_in(message, "info", "role"), value_in(message, "info", "time", "created")
        is_summary = value_in(message, "info", "summary") is True
        for part in mappings_in(message, "parts"):
            chat.leave_out("summary") if is_summary else _read_part(part, role, when, chat)
    return chat


def _read_part(part: Entry, role: str, when: object, chat: ExportedChat) -> None:
    state, tool, text = mapping_in(part, "state"), text_in(part, "tool"), text_in(part, "text")
    given = as_json(state.get("input"))
    if part.get("synthetic") or part.get("ignored"):
        chat.leave_out("note")
    elif part.get("type") == "text":
        chat.say(role, own_words({"role": role, "content": text}, chat.skipped)["content"], when)
    elif is_own_tool(tool, given):
        chat.leave_out("call of the memory's own tools")
    elif state.get("status") in ENDED:
        output, code = text_in(state, "output") or text_in(state, "error"), value_in(state, "metadata", "exit")
        seen = own_words({"type": RESULT, "output": output}, chat.skipped)["output"]
        id = chat.call(text_in(part, "callID"), tool, given, when)
        chat.result(id, f"{seen}\nCommand exited with code {code}" if code else seen, when)
    else:
        chat.skip(part)
