"""Tools that touch files: a table by name, and what a call of one did."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tinymem.recall.files.acts import SEEN, Act, edit, full_path, read, replacement, unknown, write
from tinymem.recall.files.commands import Run, has_failed, runs_of
from tinymem.recall.files.patches import acts_of_patch
from tinymem.recall.files.results import READER, text_of_result
from tinymem.recall.files.shell import acts_of_command, acts_of_search, may_concern_files
from tinymem.steps.actions import ToolCall
from tinymem.steps.content import as_text, to_mutable

__all__ = ["FILE_TOOLS", "FileTool", "acts_of", "may_have_failed", "may_touch", "runs_of_call"]


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
        is_strict: An edit is refused where its old text stands in several places, unless all of them are meant.
    """

    does: str
    path: str = ""
    old: str = ""
    new: str = ""
    content: str = ""
    command: str = ""
    is_strict: bool = False


_STRICT = {"edit", "multiedit", "replace", "strreplace", "strreplaceeditor", "strreplacebasededittool", "texteditor"}
# By names in small letters, without what a server puts before them, hyphens and underlines. Add your own.
FILE_TOOLS: dict[str, FileTool] = {
    name: FileTool(does, is_strict=name in _STRICT)
    for does, names in {
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
    }.items()
    for name in names.split()
}
_USUAL = {
    "path": ("file_path", "path", "filePath", "absolute_path", "target_file", "notebook_path", "filename", "file",
             "source", "AbsolutePath", "uri"),
    "old": ("old_string", "old_str", "oldText", "oldString", "old_text", "old", "search"),
    "new": ("new_string", "new_str", "newText", "newString", "new_text", "new", "replace", "insert_text"),
    "content": ("content", "contents", "file_text", "text", "patch", "patchText", "input", "diff", "new_source"),
    "command": ("command", "cmd", "script", "CommandLine"),
    "folder": ("workdir", "cwd", "working_directory", "directory", "dir_path", "path"),
    "to": ("destination", "to", "target", "new_path"),
}  # fmt: skip
_RANGE = ("offset", "limit", "start_line", "end_line", "view_range", "line_range", "lines", "head", "tail", "pages",
          "start_line_one_indexed", "startLine", "endLine", "range")  # fmt: skip
_ALL = ("replace_all", "replaceAll", "expected_replacements")
_WRAPPERS = {"input", "arguments", "params", "args", "request", "kwargs", "parameters"}  # alone, they hold the rest
# How the result of a call that did nothing begins, and what it says
_FAILURES = ("<tool_use_error>", "error", "failed", "no replacement", "no changes", "no match", "no such", "no file",
             "could not", "cannot", "invalid", "unable", "string to replace not", "string not", "the user doesn't want",
             "file has not", "file does not", "file not found", "file unchanged", "enoent", "eacces",
             "permission")  # fmt: skip
_REFUSALS = ("was rejected", "not found in", "does not exist", "did not match", "did not appear", "did not find",
             "multiple occurrences", "interrupted by", "[request interrupted")  # fmt: skip
_CUT = re.compile(
    r"truncated|clipped|elided|omitted|left out\]|more lines|lines (?:hidden|skipped)|too (?:long|large)|partial|"
    r"unchanged since|use (?:offset|view_range)|showing lines"
)
_NUMBERED = re.compile(r"(?m)^[ \t]*L?(\d{1,6})(?:→|[\t|:-])")
_BAD_ESCAPE = re.compile(r'(\\)(?![\\"/bfnrtu])(?<!\\\\)')  # models write some
MOST_LINES = 2_000  # that tools show of a file at once
SHORT = 100  # characters of JSON behind a result that have its exit code
EDGE = 400  # characters at the ends of a result that say if it was cut


def acts_of(call: ToolCall) -> list[Act]:
    """Return what a call did to files, as far as it is sure; of one without a result, the files alone."""
    if not may_touch(call):
        return []
    tool = FILE_TOOLS[_plain(call.name)]
    arguments = _arguments(call.arguments)
    result = text_of_result(as_text(call.observation)) if call.observation is not None else ""
    does = str(arguments.get("command", "")) if tool.does == "edit" else tool.does
    acts = _ACTS.get(does, _ACTS[tool.does])(tool, arguments, result)
    if not call.answered or call.error is not None or (tool.does != "run" and _has_failed(result)):
        return [Act(path, SEEN) for path in dict.fromkeys(act.path for act in acts)]
    return acts


def runs_of_call(call: ToolCall) -> list[Run]:
    """Return the commands that a call of a shell ran, and how they ended."""
    tool = FILE_TOOLS.get(_plain(call.name))
    if tool is None or tool.does != "run" or not call.answered:
        return []
    arguments = _arguments(call.arguments)
    line, folder = _line(_argument(tool, arguments, "command")), _path(tool, arguments, "folder")
    result = "\n".join(filter(None, (call.error, _with_code(call))))
    return runs_of(line, folder, result, call.error is not None)


def may_have_failed(call: ToolCall) -> bool:
    """Return False where a call surely ran no command that failed."""
    tool = FILE_TOOLS.get(_plain(call.name))
    is_shell = tool is not None and tool.does == "run"
    return is_shell and (call.error is not None or has_failed(as_text(call.observation)))


def _has_failed(result: str) -> bool:
    said = result[:EDGE].lower().lstrip("[*#: \n")
    return said.startswith(_FAILURES) or any(words in said for words in _REFUSALS)


def may_touch(call: ToolCall) -> bool:
    """Return False where a call surely has to do with no file."""
    tool = FILE_TOOLS.get(_plain(call.name))
    return tool is not None and (tool.does != "run" or may_concern_files(call.arguments_json))


@lru_cache
def _plain(name: str) -> str:
    return re.split(r"__|[.:/]", name)[-1].lower().replace("_", "").replace("-", "")


def _arguments(given: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return arguments as a mapping; what is no JSON object, as the "input" that it is."""
    found = _as_given(given)
    inner = next(iter(found.values())) if len(found) == 1 and not _WRAPPERS.isdisjoint(found) else None
    if isinstance(inner, str) and inner.lstrip().startswith("{"):
        inner = _read_json(inner)
    return inner if isinstance(inner, dict) else found


def _as_given(given: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if not isinstance(given, str):
        return {name: to_mutable(value) for name, value in given.items()}
    found = _read_json(given)
    return found if isinstance(found, dict) else {"input": found}


def _read_json(text: str) -> Any:
    """Read JSON, of which models escape some characters that need it not; what is none is the "input"."""
    with suppress(ValueError, RecursionError):
        return READER.decode(text)
    with suppress(ValueError, RecursionError):
        return READER.decode(_BAD_ESCAPE.sub(r"\1\1", text))
    return {"input": text}


def _with_code(call: ToolCall) -> str:
    """Return the text of a result; behind it, where it stood in JSON, the end of that, which has the exit code."""
    text = as_text(call.observation)
    shown = text_of_result(text)
    return text if shown == text else f"{shown}\n{text[-SHORT:]}"


def _argument(tool: FileTool, arguments: Mapping[str, Any], role: str) -> Any:
    names = (named,) if (named := getattr(tool, role, "")) else _USUAL[role]
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _path(tool: FileTool, arguments: Mapping[str, Any], role: str = "path") -> str:
    said = _argument(tool, arguments, role)
    return full_path(said) if isinstance(said, str) else ""


def _text(tool: FileTool, arguments: Mapping[str, Any], role: str) -> str | None:
    said = _argument(tool, arguments, role)
    return said if isinstance(said, str) else None


def _is_cut(text: str) -> bool:
    """Return whether a result says that it is not all, or its numbered lines are not those from 1 on."""
    if _CUT.search(f"{text[:EDGE]} {text[-EDGE:]}".lower()):
        return True
    numbers = [*map(int, _NUMBERED.findall(text))]
    if 2 * len(numbers) <= text.count("\n"):
        return False
    return len(numbers) >= MOST_LINES or (numbers[0], numbers[-1]) != (1, len(numbers))


def _read(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    path = _path(tool, arguments)
    is_whole = not any(arguments.get(name) not in (None, 0, "") for name in _RANGE) and not _is_cut(result)
    return [read(path, result, is_whole)] if path else []


def _search(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    path = _path(tool, arguments)
    is_file = "." in path.rsplit("/", 1)[-1] and _NUMBERED.search(result)
    return acts_of_search(result, path, path if is_file else "")


def _edit(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    path, edits = _path(tool, arguments), arguments.get("edits")
    edits = _read_json(edits) if isinstance(edits, str) else edits
    acts: list[Act] = []
    for each in edits if isinstance(edits, list) else [arguments]:
        if not isinstance(each, dict):
            continue
        where = _path(tool, each) or path
        old, new = _text(tool, each, "old"), _text(tool, each, "new")
        if old is None and new is not None and arguments.get("command") == "insert":
            old = ""
        is_all = any(map(each.get, _ALL))
        change = unknown(where) if old is None else edit(where, old, new or "", is_all)
        acts.append(change)
        if old is not None and (is_all or tool.is_strict):
            acts += replacement(where, old, new or "", is_once=not is_all)
    return [act for act in acts if act.path]


def _write(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    path, content = _path(tool, arguments), _text(tool, arguments, "content")
    if not path:
        return []
    return [unknown(path) if content is None or arguments.get("append") else write(path, content)]


def _patch(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    return acts_of_patch(_text(tool, arguments, "content") or "")


def _remove(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    return [write(path, "")] if (path := _path(tool, arguments)) else []


def _move(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    return [unknown(path) for role in ("path", "to") if (path := _path(tool, arguments, role))]


def _run(tool: FileTool, arguments: Mapping[str, Any], result: str) -> list[Act]:
    command, folder = _argument(tool, arguments, "command"), _path(tool, arguments, "folder")
    if isinstance(command, (list, tuple)) and command[:1] == ["apply_patch"]:
        return acts_of_patch("\n".join(map(str, command[1:])), folder)
    return acts_of_command(_line(command), result, folder, _is_cut(result))


def _line(command: object) -> str:
    """Return a shell's command as its line: some tools take the words of one that runs a shell."""
    if isinstance(command, (list, tuple)):
        return " ".join(map(str, command[2:] if len(command) > 2 and str(command[1]).startswith("-") else command))
    return command if isinstance(command, str) else ""


_Reader = Callable[[FileTool, Mapping[str, Any], str], list[Act]]
_ACTS: dict[str, _Reader] = {
    "read": _read, "view": _read, "search": _search, "edit": _edit, "write": _write, "create": _write,
    "patch": _patch, "remove": _remove, "move": _move, "run": _run,
}  # fmt: skip
