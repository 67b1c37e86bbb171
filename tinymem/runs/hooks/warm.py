"""The process that keeps a memory open for hooks of agents; they start it, and it ends when it is not asked."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.runs.hooks.answers import LONGEST, Answers, Asked, Opener, read_event
from tinymem.runs.hooks.client import socket_of
from tinymem.runs.hooks.privacy import is_left_alone, without_private
from tinymem.runs.hooks.quick import ACTING, line_of
from tinymem.runs.hooks.repositories import namespace_of, project_of
from tinymem.runs.hooks.transcripts import LATE
from tinymem.runs.values import text_in
from tinymem.steps.redaction import Redact

__all__ = ["answer_here", "asked_of", "serve"]

IDLE = 1_800.0  # seconds without a question, after which the process ends
LARGEST = 16 * LONGEST  # bytes of a request


def asked_of(request: dict[str, Any]) -> Asked | None:
    """Return what a hook asks; None in a project that is left alone.

    Raises:
        InputError: It is no event of an agent.
    """
    details = read_event(request["input"])
    if place := request.get("transcript"):
        file = place.replace("*", text_in(details, "session_id"))
        details = {"transcript_path": file, **details, LATE: True}
    known = [request.get("project"), details.get("cwd"), request["folder"]]
    folders = [folder for folder in known if isinstance(folder, str) and folder]
    if is_left_alone([*folders, project_of(folders[0])], request.get("leave_alone", ())):
        return None
    namespace = request["namespace"] or namespace_of(folders[0], request["per_worktree"])
    redact = request.get("redact", ())
    return Asked(request["event"], details, namespace, request["also"], request["max_tokens"], redact)


def _printed(request: dict[str, Any], asked: Asked, out: str) -> str:
    """Return what the hook prints: a text, or the JSON around it."""
    if out and request.get("flat"):
        return json.dumps({"additionalContext": out})
    if not out or not (request.get("json") or asked.event in ACTING):
        return f"{out}\n" if out else ""
    event = {"hookEventName": str(asked.details.get("hook_event_name")), "additionalContext": out}
    return json.dumps({"hookSpecificOutput": event})


def opener_of(path: str, embedder: str | None) -> Opener:
    """Return what opens the memory of a namespace."""

    def opened(namespace: str, create: bool, redact: Redact = without_private) -> HierarchicalMemory:
        return HierarchicalMemory(path, namespace=namespace, embedder=embedder, create=create, redact=redact)

    return opened


def answer_here(request: dict[str, Any]) -> dict[str, str]:
    """Answer a hook in this process."""
    with closing(Answers(opener_of(request["path"], request["embedder"]))) as answers:
        return _answered(answers, request)


def _answered(answers: Answers, request: dict[str, Any]) -> dict[str, str]:
    try:
        asked = asked_of(request)
        out = _printed(request, asked, _said(answers, request, asked)) if asked is not None else ""
    except Exception as error:
        return {"out": "", "error": line_of(error)}
    return {"out": out, "error": ""}


def _said(answers: Answers, request: dict[str, Any], asked: Asked) -> str:
    """Return what the agent is to read: also what its session begins with, where only a prompt can bring that."""
    begins = request.get("greet") and asked.event == "prompt" and asked.session not in answers.sessions
    beginning = asked._replace(event="session-start", details={**asked.details, "source": "resume"})
    events = [beginning, asked] if begins else [asked]
    return "\n".join(filter(None, map(answers.answer, events)))


def serve(path: str, embedder: str | None, idle: float = IDLE) -> None:
    """Answer the hooks of a memory until nobody asked for `idle` seconds; at once if another process does."""
    import fcntl

    listens = socket_of(path)
    if listens is None:
        return
    place = Path(listens)
    with open(place.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        place.unlink(missing_ok=True)  # of one that was killed
        with (
            socket.socket(socket.AF_UNIX) as listener,
            closing(Answers(opener_of(path, embedder), stays=True)) as answers,
        ):
            listener.bind(listens)
            os.chmod(place, 0o600)
            listener.listen()
            listener.settimeout(idle)
            try:
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=_reply, args=(answers, connection), daemon=True).start()
            except TimeoutError:
                place.unlink(missing_ok=True)
                fcntl.flock(lock, fcntl.LOCK_UN)  # at once: the next hook starts another process


def _reply(answers: Answers, connection: socket.socket) -> None:
    with connection, suppress(OSError, ValueError):
        connection.settimeout(5)
        with connection.makefile("rb") as stream:
            said = stream.read(LARGEST + 1)
        if len(said) <= LARGEST:
            connection.sendall(json.dumps(_answered(answers, json.loads(said))).encode())


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] or None)
