"""Tools that touch files: a table by name, and what a call of one did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinymem.coding.acts import READ, SEEN, Act, acts_of_patch, edit, full_path, read, reset, write
from tinymem.coding.commands import CommandRun, run_of
from tinymem.coding.lines import READER, text_of_result
from tinymem.coding.shell import acts_of_command, acts_of_search
from tinymem.steps.actions import ToolCall
from tinymem.steps.content import as_text

__all__ = ["FILE_TOOLS", "FileTool", "acts_of", "is_file_tool", "run_of_call", "server_of"]


@dataclass(frozen=True)
class FileTool:
    """A tool that touches files, and the names of its arguments where they are not the usual ones.

    Attributes:
        does: What it does: "read", "search", "edit", "write", "patch", "remove", "move", or "run" for a shell.
        path: The argument with the file's path.
        old: The one with the text that an edit replaces.
        new: The one with what it puts there.
        content: The one with all of a new file, or with a patch.
        command: The one with a shell's command.
    """

    does: str
    path: str = ""
    old: str = ""
    new: str = ""
    content: str = ""
    command: str = ""


_NAMES_BY_USE = {  # of tools, by what they do
    "read": "read readfile readtextfile view viewfile openfile cat",
    "search": "grep searchfilecontent greptool grepsearch ripgrep searchfiles",
    "edit": "edit multiedit editfile replace strreplace searchreplace strreplaceeditor strreplacebasededittool "
    "texteditor editor notebookedit updatefile insert replaceinfile",
    "write": "write writefile createfile create savefile writetofile newfile",
    "patch": "applypatch patch applydiff",
    "remove": "deletefile removefile delete deletefiles",
    "move": "movefile renamefile move copyfile",
    "run": "bash shell runshellcommand runterminalcmd runterminalcommand runcommand execcommand localshell "
    "executebash executecommand terminal containerexec exec powershell",
}
# By names in small letters, without what a server puts before them, hyphens and underlines. Add your own.
FILE_TOOLS: dict[str, FileTool] = {}
for _does, _names in _NAMES_BY_USE.items():
    FILE_TOOLS.update((name, FileTool(_does)) for name in _names.split())
_USUAL = {  # names of arguments, by their roles
    "path": "file_path path filePath absolute_path target_file notebook_path filename file source AbsolutePath uri",
    "old": "old_string old_str oldText oldString old_text old search",
    "new": "new_string new_str newText newString new_text new replace insert_text",
    "content": "content contents file_text text patch patchText input diff new_source",
    "command": "command cmd script CommandLine",
    "folder": "workdir cwd working_directory directory dir_path path",
    "to": "destination to target new_path",
}
_RANGE = """
    offset limit start_line end_line view_range line_range lines head tail pages start_line_one_indexed startLine
    endLine range
    """.split()  # noqa: SIM905
_ALL = ("replace_all", "replaceAll", "expected_replacements")
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
_BAD_ESCAPE = re.compile(r'(\\)(?![\\"/bfnrtu])(?<!\\\\)')  # models write some
MOST_LINES = 2_000  # that tools show of a file at once
SHORT = 100  # characters of JSON behind a result that have its exit code
LONGEST_REFUSAL = 1_000  # characters of a result in which it says that nothing was done
EDGE = 400  # characters at the ends of a result that say if it was cut


@lru_cache
def _plain(name: str) -> str:
    return _SERVER_END.split(name)[-1].lower().replace("_", "").replace("-", "")


@lru_cache
def server_of(name: str) -> str:
    """Return the server of a tool, whose files are others than those at hand; "" for what works on these.

    >>> server_of("crm.delete"), server_of("mcp__wiki__write"), server_of("mcp__filesystem__write_file")
    ('crm', 'mcp__wiki', '')
    """
    ends = [*_SERVER_END.finditer(name)]
    server = name[: ends[-1].start()] if ends else ""
    return "" if _LOCAL.fullmatch(server) else server


def is_file_tool(name: str) -> bool:
    """Return False where a call of this name surely has to do with no file and runs no command."""
    return _plain(name) in FILE_TOOLS


def acts_of(call: ToolCall) -> list[Act]:
    """Return what a call did to files, as far as it is sure; of one without a result, the files alone."""
    tool = FILE_TOOLS.get(_plain(call.name))
    if tool is None:
        return []
    said = as_text(call.observation)
    result = text_of_result(said)
    given = _Arguments(tool, _arguments(call.arguments_json))
    does = str(given.all.get("command", "")) if tool.does == "edit" else tool.does
    acts = _acts(given, does, result)
    has_failed = does != "run" and _FAILED.match(result[:EDGE].lower().lstrip("[*#: \n"))
    if _REFUSED.match(said[:LONGEST_REFUSAL].lstrip()) or any(map(given.all.get, _REHEARSED)):
        acts = [act for act in acts if act.kind in (SEEN, READ)] or [Act(act.path, SEEN) for act in acts]
    if has_failed or not call.answered or call.error is not None:
        paths = dict.fromkeys(act.path for act in acts)
        return [Act(path, SEEN) for path in paths]
    return acts


def run_of_call(call: ToolCall, session: str | None = None) -> CommandRun | None:
    """Return the command that a call of a shell ran, with how it ended; None where that is not sure."""
    tool = FILE_TOOLS.get(_plain(call.name))
    if tool is None or tool.does != "run" or not call.answered:
        return None
    given = _Arguments(tool, _arguments(call.arguments_json))
    text = as_text(call.observation)
    shown = text_of_result(text)
    if shown != text:
        shown = f"{shown}\n{text[-SHORT:]}"
    result = f"{call.error}\n{shown}" if call.error else shown
    return run_of(given.line(), given.path("folder"), result, call.error is not None, session)


class _Arguments:
    """The arguments that a tool was given, by their roles."""

    def __init__(self, tool: FileTool, arguments: Mapping[str, Any]) -> None:
        self.tool, self.all = tool, arguments

    def value(self, role: str) -> Any:
        """Return an argument; None where there is none."""
        named = getattr(self.tool, role, "")
        values = (self.all.get(name) for name in ([named] if named else _USUAL[role].split()))
        return next((value for value in values if value is not None), None)

    def text(self, role: str) -> str | None:
        """Return an argument that is a text."""
        value = self.value(role)
        return value if isinstance(value, str) else None

    def path(self, role: str = "path") -> str:
        """Return an argument as a path; "" where it is none."""
        return full_path(self.text(role) or "")

    def line(self) -> str:
        """Return a shell's command as its line: some tools take the words of one that runs a shell."""
        command = self.value("command")
        if isinstance(command, list):
            words = [*map(str, command)]
            return " ".join(words[2:] if words[1:2] and words[1].startswith("-") and len(words) > 2 else words)
        return command if isinstance(command, str) else ""


def _acts(given: _Arguments, does: str, result: str) -> list[Act]:
    """Return the acts of a call that did what its tool does, or the command of an editor."""
    path = given.path()
    if does == "run":
        return acts_of_command(given.line(), result, given.path("folder"), _is_cut(result))
    if does == "patch":
        return acts_of_patch(given.text("content") or "")
    if does == "search":
        is_file = "." in path.rsplit("/", 1)[-1] and _NUMBERED.search(result)
        return acts_of_search(result, path, path if is_file else "")
    if does == "move":
        return [reset(moved) for moved in (path, given.path("to")) if moved]
    if given.tool.does == "edit" and does not in ("view", "create"):
        return [act for act in _edits(given) if act.path]
    if not path:
        return []
    if does in ("read", "view"):
        is_part = any(given.all.get(name) not in (None, 0, "") for name in _RANGE)
        return [read(path, result, not is_part and not _is_cut(result))]
    content = "" if does == "remove" else given.text("content")
    return [reset(path) if content is None or given.all.get("append") else write(path, content)]


def _edits(given: _Arguments) -> list[Act]:
    """Return the acts of the edits of a call."""
    edits = given.all.get("edits")
    edits = _read_json(edits) if isinstance(edits, str) else edits
    acts: list[Act] = []
    for arguments in edits if isinstance(edits, list) else [given.all]:
        if not isinstance(arguments, dict):
            continue
        this = _Arguments(given.tool, arguments)
        path = this.path() or given.path()
        old, new = this.text("old"), this.text("new")
        if old is None and new is not None and given.all.get("command") == "insert":
            old = ""
        if old is None:
            acts.append(reset(path))
            continue
        acts.append(edit(path, old, new or "", any(map(arguments.get, _ALL))))
    return acts


def _arguments(text: str) -> dict[str, Any]:
    """Return arguments as a mapping; what is no JSON object, as the "input" that it is."""
    found = _read_json(text)
    return found if isinstance(found, dict) else {"input": found}


def _read_json(text: str) -> Any:
    """Read JSON, of which models escape some characters that need it not; what is none is the "input"."""
    with suppress(ValueError, RecursionError):
        return READER.decode(text)
    with suppress(ValueError, RecursionError):
        return READER.decode(_BAD_ESCAPE.sub(r"\1\1", text))
    return {"input": text}


def _is_cut(text: str) -> bool:
    """Return whether a result says that it is not all, or its numbered lines are not those from 1 on."""
    if _CUT.search(f"{text[:EDGE]} {text[-EDGE:]}".lower()):
        return True
    numbers = [*map(int, _NUMBERED.findall(text))]
    if 2 * len(numbers) <= text.count("\n"):
        return False
    return len(numbers) >= MOST_LINES or (numbers[0], numbers[-1]) != (1, len(numbers))
