"""Small exports of the documented formats, which tests read whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WHEN = 1_767_225_600  # 2026-01-01


def node(id: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    message = {"id": id, "author": {"role": role}, "create_time": WHEN + int(id), "recipient": "all",
               "content": {"content_type": "text", "parts": [text]}, "metadata": {}, **more}  # fmt: skip
    return {"id": id, "parent": parent, "children": [], "message": message}


CHATGPT = {
    "title": "Ports", "conversation_id": "c-1", "create_time": WHEN, "current_node": "6",
    "mapping": {
        "0": {"id": "0", "parent": None, "children": ["1"], "message": None},
        "1": node("1", "0", "user", "Which port is open?"),
        "2": node("2", "1", "assistant", "I guess 80."),  # a branch that was left
        "3": node("3", "1", "assistant", "scan('h')", recipient="python"),
        "4": node("4", "3", "tool", "port 8443 is open"),
        "5": node("5", "4", "assistant", "", content={"content_type": "thoughts", "thoughts": []}),
        "6": node("6", "5", "assistant", "It is 8443."),
    },
}  # fmt: skip
CLAUDE = {
    "uuid": "c-2", "name": "Ports", "created_at": "2026-01-01T00:00:00Z",
    "chat_messages": [
        {"uuid": "m1", "sender": "human", "created_at": "2026-01-01T00:00:01.000000Z", "text": "Which port is open?",
         "content": [{"type": "text", "text": "Which port is open?"}],
         "attachments": [{"file_name": "hosts.txt", "extracted_content": "h 10.0.0.7"}],
         "files": [{"file_name": "x.png"}]},
        {"uuid": "m2", "sender": "assistant", "created_at": "2026-01-01T00:00:02.000000Z", "text": "It is 8443.",
         "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Looking."},
                     {"type": "tool_use", "id": "t1", "name": "scan", "input": {"host": "h"}},
                     {"type": "tool_result", "content": [{"type": "text", "text": "port 8443 is open"}]},
                     {"type": "text", "text": "It is 8443."}]},
    ],
}  # fmt: skip
GEMINI: dict[str, Any] = {
    "sessionId": "s-3", "projectHash": "ab", "startTime": "2026-01-01T00:00:00.000Z",
    "messages": [
        {"id": "1", "timestamp": "2026-01-01T00:00:01.000Z", "type": "user",
         "content": [{"text": "Which port is open?"}]},
        {"id": "2", "timestamp": "2026-01-01T00:00:02.000Z", "type": "gemini", "content": "Looking.", "thoughts": [],
         "toolCalls": [{"id": "t1", "name": "scan", "args": {"host": "h"}, "status": "success", "result": [
             {"functionResponse": {"id": "t1", "name": "scan", "response": {"output": "port 8443 is open"}}}]}]},
        {"id": "3", "timestamp": "2026-01-01T00:00:03.000Z", "type": "info", "content": "Request cancelled."},
        {"id": "4", "timestamp": "2026-01-01T00:00:04.000Z", "type": "gemini", "content": "It is 8443."},
    ],
}  # fmt: skip
OPENCODE: dict[str, Any] = {  # what `opencode export` of version 1.18 printed, less ids, tokens and names of a machine
    "info": {"id": "ses_4", "projectID": "global", "directory": "/src/shop", "title": "Ports", "version": "1.18.33"},
    "messages": [
        {"info": {"role": "user", "time": {"created": 1_000 * (WHEN + 1)}, "agent": "build", "summary": {"diffs": []}},
         "parts": [{"type": "text", "text": "Which port is open?"},
                   {"type": "text", "text": "From the memory of earlier sessions.", "synthetic": True}]},
        {"info": {"role": "assistant", "mode": "build", "path": {"cwd": "/src/shop"}, "finish": "tool-calls",
                  "time": {"created": 1_000 * (WHEN + 2), "completed": 1_000 * (WHEN + 3)}},
         "parts": [{"type": "step-start", "snapshot": "fb176aac"},
                   {"type": "tool", "tool": "bash", "callID": "call_5", "state": {
                       "status": "completed", "input": {"command": "sh port.sh", "description": "Look"},
                       "output": "error: port 8443 is open for nobody\n\n\n<system-reminder>\n"
                                 "#27 2026-11-29 sh port.sh failed like this; it passed in #29\n</system-reminder>",
                       "metadata": {"output": "error: port 8443 is open for nobody\n", "exit": 1, "truncated": False},
                       "title": "sh port.sh", "time": {"start": 1_000 * (WHEN + 2), "end": 1_000 * (WHEN + 3)}}},
                   {"type": "tool", "tool": "tinymem_recall", "callID": "call_6", "state": {
                       "status": "completed", "input": {"query": "port"}, "output": "Nothing.", "metadata": {}}},
                   {"type": "step-finish", "reason": "tool-calls", "snapshot": "fb176aac"}]},
        {"info": {"role": "assistant", "mode": "build", "finish": "stop", "time": {"created": 1_000 * (WHEN + 4)}},
         "parts": [{"type": "text", "text": "It is 8443."}]},
        {"info": {"role": "user"}, "parts": [{"type": "compaction", "auto": False}]},
        {"info": {"role": "assistant", "mode": "compaction", "summary": True},
         "parts": [{"type": "text", "text": "We found the port."}]},
    ],
}  # fmt: skip
USERS = [{"id": "U1", "name": "ann", "profile": {"display_name": "Ann"}}, {"id": "U2", "real_name": "Bob Lee"}]
DAYS = {
    "2026-01-02.json": [{"type": "message", "user": "U2", "text": "8443, <@U1>.", "ts": f"{WHEN + 86_400}.000200"}],
    "2026-01-01.json": [
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "joined", "ts": f"{WHEN}.000100"},
        {"type": "message", "user": "U1", "text": "Which port is open?", "ts": f"{WHEN + 1}.000100"},
    ],
}


def file_of(folder: Path, value: Any) -> Path:
    (path := folder / "export.json").write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def gemini_log(folder: Path) -> Path:
    """The same session in the form of newer versions: a call comes again with its result, and one goes back."""
    asked, call, info, answer = GEMINI["messages"]
    context = {"id": "0", "type": "user", "content": [{"text": "<session_context>Linux</session_context>"}]}
    wrong = {"id": "9", "type": "user", "content": "Forget it."}
    lines = [
        {key: value for key, value in GEMINI.items() if key != "messages"}, {"$set": {"messages": [context]}}, asked,
        {"$set": {"lastUpdated": "2026-01-01T00:00:01.000Z"}}, {**call, "toolCalls": []}, call, info, wrong,
        {"$rewindTo": "9"}, answer,
    ]  # fmt: skip
    (path := folder / "session.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path
