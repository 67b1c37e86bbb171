"""Tools that touch files: a table by name, and what a call of one did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

from tinymem.coding.acts import (
    READ,
    SEEN,
    Act,
    acts_of_patch,
    edit,
    full_path,
    has_suffix,
    in_scope,
    read,
    reset,
    scope_of,
    write,
)
from tinymem.coding.failures import ShellRun
from tinymem.coding.shell import acts_of_command, acts_of_search
from tinymem.steps.actions import ActionStep, ToolCall
from tinymem.steps.content import as_text
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep

__all__ = [
    "ARGUMENTS", "FILE_TOOLS", "acts_of_call", "calls_in", "calls_of", "edits_in", "file_in", "run_in", "text_in_file",
    "use_of",
]  # fmt: skip

Arguments: TypeAlias = Mapping[str, Any]


_NAMES_BY_USE = {  # of tools, by what they do
    "read": "read readfile readtextfile view viewfile openfile cat",
    "search": "grep searchfilecontent greptool grepsearch ripgrep searchfiles",
    "edit": "edit multiedit editfile replace strreplace searchreplace strreplaceeditor strreplacebasededittool "
    "texteditor editor notebookedit updatefile insert replaceinfile",
    "write": "write writefile createfile create savefile writetofile newfile",
    "patch": "applypatch patch applydiff",
    "remove": "deletefile removefile delete deletefiles",
    "run": "bash shell runshellcommand runterminalcmd runterminalcommand runcommand execcommand localshell "
    "executebash executecommand terminal containerexec exec powershell",
}
# By names in small letters, without what a server puts before them, hyphens and underlines. Add your own.
FILE_TOOLS: dict[str, str] = {}
for _does, _names in _NAMES_BY_USE.items():
    FILE_TOOLS |= dict.fromkeys(_names.split(), _does)
ARGUMENTS = {  # names, by their roles
    "path": "file_path path filePath absolute_path target_file notebook_path filename file source AbsolutePath uri",
    "old": "old_string old_str oldText oldString old_text old search",
    "new": "new_string new_str newText newString new_text new replace insert_text",
    "content": "content contents file_text text patch patchText input diff new_source",
    "command": "command cmd script CommandLine",
    "folder": "workdir cwd working_directory directory dir_path path",
}
_RANGE = """
    offset limit start_line end_line view_range line_range lines head tail pages start_line_one_indexed startLine
    endLine range
    """.split()  # noqa: SIM905
# How the result of a call that did nothing begins, and what it says
_FAILED = re.compile(
    r"<tool_use_error>|error|failed|no (?:replacement|changes|match|such|file)|could not|cannot|invalid|unable|"
    r"string (?:to replace )?not|the user doesn't want|file (?:has not|does not|not found|unchanged)|enoent|eacces|"
    r"permission|.*(?:was rejected|not found in|does not exist|did not (?:match|appear|find)|multiple occurrences|"
    r"interrupted by|\[request interrupted)",
    re.DOTALL,
)
# What the first line of a result says, whose call was refused, or its fields
_REFUSED = re.compile(
    r"[^\n]*(?<![\w/.-])(?:refused|denied|blocked|rejected|declined|forbidden|disallowed|prohibited|unauthori[sz]ed|"
    r"aborted|cancell?ed|not (?:allowed|permitted|authori[sz]ed)|read-only|requires approval|no space left|dry[ -]run)"
    r"(?![\w/-]|\.\w)|.{0,400}?[\"'](?:success|ok|succeeded|deleted|removed|updated|written|done)[\"']\s*:\s*false|"
    r".{0,400}?[\"']status[\"']\s*:\s*[\"'](?:error|fail\w*|den\w+|refused|rejected)|"
    r".{0,400}?[\"']is_?error[\"']\s*:\s*true|false\s*\Z|.{0,400}?[\"']error[\"']\s*:\s*(?:\{|[\"'](?![\"']))",
    re.IGNORECASE | re.DOTALL,
)
_REHEARSED = ("dry_run", "dryRun", "dryrun", "preview", "simulate", "validate_only", "check_only")
_LOCAL = re.compile(  # what stands before a tool's name where it works on the files at hand
    r"(?:mcp_+)?(?:\w*(?:file|folder|fs|desktop|commander|shell|terminal|bash|sandbox|container|workspace|editor|code|ide)"
    r"\w*|functions?|tools?|default_api|local|os|serena)?",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"truncated|clipped|elided|omitted|left out\]|more lines|lines (?:hidden|skipped)|too (?:long|large)|partial|"
    r"unchanged since|use (?:offset|view_range)|showing lines"
)
_NUMBERED = re.compile(r"(?m)^[ \t]*L?(\d{1,6})(?:→|[\t|:-])")
_SERVER_END = re.compile(r"__|[.:/]")  # between a server's name and its tool's
LONGEST_REFUSAL = 1_000  # characters of a result in which it says that nothing was done
EDGE = 400  # characters at the ends of a result that say if it was cut


@lru_cache
def use_of(name: str) -> str:
    """Return what a tool does to the files at hand; "" for nothing, as one of a server that has others.

    >>> use_of("Write"), use_of("mcp__filesystem__write_file"), use_of("mcp__wiki__write")
    ('write', 'write', '')
    """
    *server, tool = _SERVER_END.split(name)
    return FILE_TOOLS.get(re.sub("[_-]", "", tool.lower()), "") if _LOCAL.fullmatch("__".join(server)) else ""


def calls_in(steps: Iterable[Step]) -> dict[str, ToolCall]:
    """Return the calls in some steps, by their ids."""
    actions = (step.tool_calls for step in steps if isinstance(step, ActionStep))
    return {call.id: call for call in chain.from_iterable(actions)}


def calls_of(step: Step, known: dict[str, ToolCall]) -> Sequence[ToolCall]:
    """Return the calls of a step; of a result that came later, the call that it answers."""
    if isinstance(step, ActionStep):
        return step.tool_calls
    call = known.get(step.tool_call_id or "") if isinstance(step, MessageStep) else None
    return [] if call is None else [replace(call, observation=step.text, error=None)]


def acts_of_call(call: ToolCall, session: str | None = None) -> list[Act]:
    """Return what a call in a session did to files, by their paths there, and how the command ended that it ran."""
    scope, run = scope_of(session), run_in(call)
    acts = [in_scope(act, scope) for act in _acts_of(call)]
    return acts + run.acts(session) if run else acts


def run_in(call: ToolCall) -> ShellRun | None:
    """Return the run of a call's line; None where it ran nothing that fails or passes, or waits for its result."""
    if use_of(call.name) != "run" or not call.answered:
        return None
    given = _arguments(call)
    return ShellRun.of(_line(given), _said(call), call.error is not None, _path(given, "folder"))


def edits_in(call: ToolCall) -> list[tuple[str, str]]:
    """Return the files that a call edits or edited, each with the first line of what is new."""
    does, given = use_of(call.name), _arguments(call)
    if does not in ("edit", "write", "patch", "run") or given.get("command") == "view":
        return []
    acts = [act for act in _acts_of(call) if act.kind not in (SEEN, READ) or not call.answered]
    new = _new_in(given)
    old, sign = (_text(given, "old") or "").splitlines(), "+" * (does == "patch")
    lines = (line[len(sign) :].strip() for line in new.splitlines() if line not in old and line.startswith(sign))
    line = next(filter(None, lines), "")
    return [(act.path, line) for act in acts if does != "run" or call.answered]


def file_in(call: ToolCall) -> str:
    """Return the file that a call reads or edits, of several the first; "" for none."""
    path = _path(_arguments(call)) if use_of(call.name) in ("read", "edit", "write") else ""
    return path or next((path for path, _ in edits_in(call)), "")


def text_in_file(call: ToolCall) -> str:
    """Return what a call wrote to its file, else what it read."""
    return _new_in(_arguments(call)) or _said(call)


def _new_in(given: Arguments) -> str:
    return _text(given, "new") or _text(given, "content") or ""


def _said(call: ToolCall) -> str:
    return f"{call.error or ''}\n{as_text(call.observation)}".lstrip("\n")


def _acts_of(call: ToolCall) -> list[Act]:
    """Return what a call did to files, as far as it is sure; of one without a result, the files alone."""
    does, result = use_of(call.name), as_text(call.observation)
    if not does:
        return []
    given = _arguments(call)
    acts = _acts(given, does, result)
    has_failed = does != "run" and _FAILED.match(result[:EDGE].lower().lstrip("[*#: \n"))
    is_refused = _REFUSED.match(result[:LONGEST_REFUSAL].lstrip()) or any(map(given.get, _REHEARSED))
    is_answered = call.answered and call.error is None and not has_failed
    if is_answered and not is_refused:
        return acts
    seen = [act for act in acts if act.kind in (SEEN, READ)] if is_answered else []
    return seen or [*dict.fromkeys(Act(act.path, SEEN) for act in acts)]


def _text(given: Arguments, role: str) -> str | None:
    """Return the argument that has a role; None where there is none that is a text."""
    values = map(given.get, ARGUMENTS[role].split())
    return next((value for value in values if isinstance(value, str)), None)


def _path(given: Arguments, role: str = "path") -> str:
    return full_path(_text(given, role) or "")


def _line(given: Arguments) -> str:
    """Return a shell's command as its line: some tools take the words of one that runs a shell."""
    words = given.get("command")
    if not isinstance(words, list):
        return _text(given, "command") or ""
    is_shell = len(words) > 2 and str(words[1]).startswith("-")
    return " ".join(map(str, words[2:] if is_shell else words))


def _acts(given: Arguments, does: str, result: str) -> list[Act]:
    """Return the acts of a call that did what its tool does."""
    path, command = _path(given), given.get("command")
    if does == "run":
        return acts_of_command(_line(given), result, _path(given, "folder"), _is_cut(result))
    if does == "patch":
        return acts_of_patch(_text(given, "content") or _line(given))
    if does == "search":
        return acts_of_search(result, path, path if has_suffix(path) else "")
    if does == "edit" and command not in ("view", "create"):
        return [act for act in _edits(given) if act.path]
    if not path:
        return []
    if does == "read" or command == "view":
        is_part = any(given.get(name) not in (None, 0, "") for name in _RANGE)
        return [read(path, result, not is_part and not _is_cut(result))]
    content = "" if does == "remove" else _text(given, "content")
    return [reset(path) if content is None or given.get("append") else write(path, content)]


def _edits(given: Arguments) -> Iterator[Act]:
    """Yield the acts of the edits of a call."""
    edits = given.get("edits")
    for arguments in edits if isinstance(edits, list) else [given]:
        if isinstance(arguments, Mapping):
            path, new = _path(arguments) or _path(given), _text(arguments, "new") or ""
            old = "" if given.get("command") == "insert" else _text(arguments, "old")
            yield reset(path) if old is None else edit(path, old, new)


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments as a mapping; what is no JSON object, as the "input" that it is."""
    found: Any = call.arguments_json
    with suppress(ValueError, RecursionError):
        found = json.loads(found, strict=False)
    return found if isinstance(found, dict) else {"input": found}


def _is_cut(text: str) -> bool:
    """Return whether a result says that it is not all, or its numbered lines are not those from 1 on."""
    if _CUT.search(f"{text[:EDGE]} {text[-EDGE:]}".lower()):
        return True
    numbers = [*map(int, _NUMBERED.findall(text))]
    return 2 * len(numbers) > text.count("\n") and (numbers[0], numbers[-1]) != (1, len(numbers))
