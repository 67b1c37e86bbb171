"""The command `tinymem-hook`: asks the process that keeps the memory open, so that an agent's turn hardly waits.

It loads nothing of the memory. Where there is no such process it starts one and waits for its answer, but not for long:
then a prompt goes on without what is recalled, and the other events are answered here.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tinymem.runs.hooks.client import ask, start

__all__ = ["main"]

LONGEST = 1_000_000  # characters of an event
PATIENCE = {"prompt": 5.0}  # seconds that an event waits for its answer: a process that must start needs one or two;
ELSE = 10.0  # and other events; what takes longer is done without the agent
PAUSE = 0.02  # seconds between looks whether the process has begun to listen
DEFAULT_PATH = "~/.tinymem"


def main() -> None:
    """Answer a hook: print what the agent is to read. Nothing that goes wrong stops the agent."""
    begun = time.monotonic()
    try:
        request = _request(sys.argv[1:])
        until = begun + PATIENCE.get(request["event"], ELSE)
        found = ask(request, until - time.monotonic())
        if found is None and request["event"] != "session-end" and start(request["path"], request["embedder"]):
            while found is None and time.monotonic() + PAUSE < until:
                time.sleep(PAUSE)
                found = ask(request, max(PAUSE, until - time.monotonic()))
        if found is None:
            if request["event"] == "prompt":
                return
            from tinymem.runs.hooks.warm import answer_here

            found = answer_here(request)
        sys.stdout.write(found["out"])
        sys.stdout.flush()
        if found["error"]:
            sys.stderr.write(f"tinymem: {found['error']}\n")
            raise SystemExit(1)
    except SystemExit:
        raise
    except Exception as error:  # exit status 2 would keep the agent from going on
        sys.stderr.write(f"tinymem: {type(error).__name__}\n")
        raise SystemExit(1) from None


def _request(arguments: list[str]) -> dict[str, Any]:
    import argparse

    parser = argparse.ArgumentParser(prog="tinymem-hook", description="Answer a hook of a coding agent.")
    add = parser.add_argument
    add("event", help="session-start, prompt, pre-compact, stop, subagent-stop or session-end")
    add("--path", default=os.environ.get("TINYMEM_PATH", DEFAULT_PATH), help=f"the memory (default: {DEFAULT_PATH})")
    add("--namespace", help="the namespace; by default that of the repository which the agent works in")
    add("--per-worktree", action="store_true", help="each worktree of the repository has a namespace of its own")
    add("--also", action="append", default=[], metavar="NAMESPACE", help="a namespace that is read beside it")
    add(
        "--redact", action="append", default=[], metavar="PATTERN", help="replaced before anything is kept, or: secrets"
    )
    add(
        "--leave-alone",
        action="append",
        default=[],
        metavar="FOLDER",
        help="projects to do nothing for, as ~/clients/*",
    )
    add("--max-tokens", type=int, help="the most tokens of what is printed")
    add("--embedder", help="the embedder of a new memory")
    add("--json", action="store_true", help="print JSON, as Gemini CLI reads it, and not the text")
    given = vars(parser.parse_args(arguments))
    given["path"] = os.path.expanduser(given["path"])
    project = os.environ.get("CLAUDE_PROJECT_DIR")  # where the session began; the agent may be elsewhere by now
    return {**given, "project": project, "folder": os.getcwd(), "input": sys.stdin.read(LONGEST + 1)}


if __name__ == "__main__":
    main()
