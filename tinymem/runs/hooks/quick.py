"""The command `tinymem-hook`: asks the process that keeps the memory open, so that an agent's turn hardly waits.

It loads nothing of the memory. Where there is no such process it starts one and waits for its answer, but not for long:
then a prompt goes on without what is recalled, and the other events are answered here.
"""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress

from tinymem import TYPE_CHECKING
from tinymem.runs.hooks.client import ask, start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["ACTING", "line_of", "main"]

LONGEST = 1_000_000  # characters of an event
ACTING = ("pre-tool-use", "post-tool-use", "post-tool-use-failure")  # asked only where a process stays
PATIENCE = {"prompt": 5.0, **dict.fromkeys(ACTING, 2.0)}  # seconds that an event waits for its answer: a process that
# must start needs one or two;
ELSE = 10.0  # and other events; what takes longer is done without the agent
SIGNS = re.compile("error|fail|exit(?:ed|_| |with)*code|not found|no such|fatal|denied|panic", re.IGNORECASE)
PAUSE = 0.02  # seconds between looks whether the process has begun to listen
OPTIONS = """
--path=FOLDER       the memory (default: ~/.tinymem)
--namespace=NAME    the namespace; by default that of the repository which the agent works in
--per-worktree      each worktree of the repository has a namespace of its own
--also=NAME         a namespace that is read beside it, once or more
--redact=PATTERN    what is replaced before anything is kept, or: secrets; once or more
--leave-alone=GLOB  a folder of projects to do nothing for, as ~/clients/*; once or more
--max-tokens=COUNT  the most tokens of what is printed
--embedder=NAME     the embedder of a new memory
--json              print JSON, as Gemini CLI and Qwen Code read it, and not the text
--flat              print JSON as Copilot CLI reads it
--transcript=FILE   the file of a session whose event names none; * stands for its id
--greet             the first prompt of a session gets what a session begins with
"""
USAGE = f"tinymem-hook EVENT [OPTION...]: answer a hook of a coding agent, as session-start, prompt or stop\n{OPTIONS}"
SEVERAL = ("also", "redact", "leave-alone")


def main() -> None:
    """Answer a hook: print what the agent is to read.

    Whatever goes wrong is one line and exit status 1, for 2 would stop the agent.
    """
    try:
        _answer()
        sys.stdout.flush()
    except SystemExit as ended:
        raise SystemExit(bool(ended.code)) from None
    except BaseException as error:
        with suppress(Exception):
            if isinstance(error, OSError):  # what is left for a closed output is dropped
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.stderr.write(f"tinymem: {line_of(error)}\n")
        raise SystemExit(1) from None


def line_of(error: BaseException) -> str:
    """Return what went wrong, on one line, without what a memory holds."""
    from tinymem.errors import TinymemError, safe_summary
    from tinymem.steps.terminal import printable

    said = str(error) if isinstance(error, TinymemError) else f"the hook failed: {safe_summary(error)}"
    return " ".join(printable(said).split())


def _answer() -> None:
    begun = time.monotonic()
    request = _request(sys.argv[1:])
    if request["event"] == "post-tool-use" and not SIGNS.search(request["input"]):
        return
    until = begun + PATIENCE.get(request["event"], ELSE)
    found = ask(request, until - time.monotonic())
    if found is None and request["event"] not in ("session-end", *ACTING):
        process = start(request["path"], request["embedder"])
        while found is None and process is not None and time.monotonic() + PAUSE < until:
            time.sleep(PAUSE)
            is_last = process.poll() is not None  # it could not begin, or another one was faster
            found = ask(request, max(PAUSE, until - time.monotonic()))
            process = None if is_last else process
    if found is None and request["event"] not in ("prompt", *ACTING):
        from tinymem.runs.hooks.warm import answer_here

        found = answer_here(request)
    _print(found or {"out": "", "error": ""})


def _print(found: Mapping[str, str]) -> None:
    """Print what an agent is to read; what went wrong is raised."""
    sys.stdout.write(found["out"])
    if found["error"]:
        from tinymem.errors import InputError

        raise InputError(found["error"])


def _request(arguments: list[str]) -> dict[str, Any]:
    given = _parsed(arguments)
    given["path"] = os.path.expanduser(given["path"] or os.environ.get("TINYMEM_PATH", "~/.tinymem"))
    project = os.environ.get("CLAUDE_PROJECT_DIR")  # where the session began; the agent may be elsewhere by now
    said = sys.stdin.read(LONGEST + 1) if sys.stdin else ""
    return {**given, "project": project, "folder": os.getcwd(), "input": said}


def _parsed(arguments: list[str]) -> dict[str, Any]:
    from getopt import GetoptError, gnu_getopt  # argparse takes longer than all the rest

    names = re.findall(r"^--([\w-]+=?)", OPTIONS, re.MULTILINE)
    given: dict[str, Any] = {name.strip("="): None if name.endswith("=") else False for name in names}
    given |= {name: [] for name in SEVERAL}
    try:
        found, events = gnu_getopt(arguments, "h", names)
        for option, value in found:
            name = option.lstrip("-")
            given[name] = [*given[name], value] if name in SEVERAL else value if f"{name}=" in names else True
        if "h" in given:
            sys.stdout.write(USAGE)
            raise SystemExit
        given |= {"event": " ".join(events), "max-tokens": given["max-tokens"] and int(given["max-tokens"])}
    except (GetoptError, ValueError) as error:
        _print({"out": "", "error": f"{error}; tinymem-hook -h says what there is"})
    return {name.replace("-", "_"): value for name, value in given.items()}


if __name__ == "__main__":
    main()
