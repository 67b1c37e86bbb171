"""Lines of shell commands: files that they show, and change."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from functools import lru_cache

from tinymem.recall.files.acts import SEEN, WROTE, Act, acts_of_patch, full_path, read, reset, write
from tinymem.recall.files.lines import code_lines

__all__ = ["LONGEST", "OPEN", "PROGRAM_VERSION", "Command", "acts_of_command", "acts_of_search", "commands_of"]

MOST_TEXTS = 32  # here-documents in a command: of one with more nobody knows what it did
LONGEST = 6_000  # characters of a command, without the texts in it
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_FOUND = re.compile(r"(?m)^((?:[A-Za-z]:)?[^\s:]{1,300}):\d+[:](.*)$")
_PLAIN = re.compile(r"[\w./~@+-]*[A-Za-z_][\w./~@+-]*")  # a path without wildcards and variables
_OPTION = re.compile(r"-|[sy]([/|,]).*\1")  # or what sed is to do
_RESETS = {"checkout", "restore", "stash", "reset", "revert", "switch"}
_HARMLESS = {"-b", "-B", "-c", "list", "show", "--abort", "--stat", "--check", "--soft"}
_REHEARSED = {"--dry-run", "--dryrun", "--simulate", "--just-print", "-WhatIf", "--help", "--version"}
_NO_FILE = r"permission denied|read-only file|is a directory|no such file|no space left|not permitted|cannot create"
_SHOW = {"cat", "bat", "nl", "less", "more", "head", "tail"}
_WHOLE = {"cat", "nl", "bat"}  # what shows all of a file as it is
_FILTER = {"sed", "perl", "awk"}
_SEARCH = {"grep", "egrep", "rg", "ag", "find"}
_SILENT = {"", "rm", "mkdir", "touch", "chmod", "export", "set", "apply_patch"}
_LEADING = frozenset("sudo time nohup command exec env winpty then do else { !".split())  # noqa: SIM905
_RUNNERS = re.compile(r"(?:uv|poetry|pipenv|rye|hatch|pdm) run|(?:pnpm|yarn|npm|bundle|mise) exec")
_FETCHERS = {"npx", "bunx", "pnpx", "uvx"}
_ASSIGNMENT = re.compile(r"\w+=")
PROGRAM_VERSION = re.compile(r"(python|pip|py|node)[\d.]*(?:\.exe)?")
_ENDS = set("&|;\n()")
OPEN = "'"  # the ending of a command whose quote is not closed


@dataclass
class Command:
    """A simple command of a line: its words, the files that its output goes to, the text that it is given.

    Its `plain` words are those without what only says how it is run, as `sudo`, `FOO=1`, `timeout 60`, `uv run`; it
    works in `folder`.
    """

    words: list[str] = field(default_factory=list)
    targets: list[tuple[str, str]] = field(default_factory=list)  # with > or >>
    text: str | None = None  # of a here-document
    ending: str = ""  # what stands behind it
    plain: list[str] = field(default_factory=list)
    folder: str = ""

    @property
    def is_piped(self) -> bool:
        """True if its output goes to another command."""
        return "|" in self.ending.replace("||", "")


def _plain_words(words: list[str]) -> list[str]:
    words = [*filter(str.strip, words)]
    while words:
        if _ASSIGNMENT.match(words[0]) or words[0] in _LEADING or words[0] in _FETCHERS:
            words = words[1:]
        elif words[0] == "timeout":
            durations = [place for place, word in enumerate(words) if word[:1].isdecimal()]
            words = words[durations[0] + 1 if durations else 1 :]
        elif _RUNNERS.fullmatch(" ".join(words[:2])) or _runs_module(words):
            words = words[2:]
        else:
            break
        while words and words[0].startswith("-"):
            words = words[1:]
    return words


def _runs_module(words: list[str]) -> bool:
    return words[1:2] == ["-m"] and PROGRAM_VERSION.fullmatch(words[0].rsplit("/", 1)[-1]) is not None


def acts_of_command(
    line: str, output: str, folder: str = "", is_cut: bool = False, has_failed: bool = False
) -> list[Act]:
    """Return what the commands of a line did to files, and showed of them in its `output`, which may be cut.

    One that failed, or only says what it would do, did nothing.
    """
    if line.count("<<") > MOST_TEXTS:
        return [reset("")]
    acts: list[Act] = []
    shown: list[str] = []
    is_search, is_whole = False, not is_cut
    commands = commands_of(line, folder)
    for command in commands:
        program, *rest = command.plain or [""]
        program = program.rsplit("/", 1)[-1]
        acts += [act for act in _redirected(command, program, rest) if not _is_refused(act.path, output)]
        if command.targets or program == "cd":
            continue
        words = [word for word in rest if _PLAIN.fullmatch(word) and not _OPTION.match(word)]
        paths = [full_path(word, command.folder) for word in words]
        if program in _SHOW and not command.text:
            shown += [path for path in paths if not path.rsplit("/", 1)[-1].isdecimal()]
            is_whole = is_whole and program in _WHOLE and not command.is_piped
        elif program in _FILTER and not any(word.startswith(("-i", "-pi")) for word in rest):
            shown += paths[-1:] if len(rest) > 1 else []
            is_whole = False
        elif program in _SEARCH:
            said = [word for word in rest if word[:1] not in ("-", "") and not word.isdecimal()]
            files = [word for word in said[0 if "-e" in rest else 1 :] if _PLAIN.fullmatch(word)]
            shown += [full_path(word, command.folder) for word in files if "." in word.rsplit("/", 1)[-1].strip(".")]
            is_search = True
        else:
            acts += [] if _does_nothing(program, rest, output) else _changes(command, program, rest, paths)
            is_whole = is_whole and program in _SILENT
    if has_failed:  # of several commands nobody knows which
        is_one = sum(command.plain[:1] not in ([], ["cd"]) for command in commands) == 1
        acts = [] if is_one else [reset(act.path) if act.kind == WROTE and not act.lines else act for act in acts]
    every = [*dict.fromkeys(shown)]
    if is_search:
        acts += acts_of_search(output, commands[-1].folder, every[0] if len(every) == 1 else "")
    else:
        acts += [read(path, output, is_whole and len(shown) == 1) for path in every]
    return [*dict.fromkeys(acts)]


def acts_of_search(output: str, folder: str, path: str = "") -> list[Act]:
    """Return the acts of seeing what a search found, in the files that it names, or in the one at `path`."""
    found: dict[str, list[str]] = {}
    for match in _FOUND.finditer(output):
        found.setdefault(full_path(match[1], _base(folder, match[1])), []).append(match[2])
    if not found:
        return [read(path, output, is_whole=False)] if path else []
    return [Act(name, SEEN, tuple(code_lines("\n".join(lines)))) for name, lines in sorted(found.items())]


def _base(folder: str, path: str) -> str:
    """Return the folder that a found path starts from: `folder`, or the one above it that holds what the path names."""
    folders, first = folder.split("/"), path.replace("\\", "/").split("/", 1)[0]
    return "/".join(folders[: folders.index(first)]) if first and first in folders else folder


def _redirected(command: Command, program: str, rest: list[str]) -> list[Act]:
    """Return what the output of a command does to the files that it goes to."""
    targets = [(sign, path) for sign, path in command.targets if not path.startswith("/dev/")]
    if program == "tee":
        sign = ">>" if "-a" in rest else ">"
        targets += [(sign, path) for path in rest if not path.startswith("-")]
    text = command.text if program in ("tee", "cat") else None
    acts = []
    for sign, name in targets:
        path = full_path(name, command.folder)
        if text is not None:
            acts.append(write(path, text) if sign == ">" else Act(path, SEEN, tuple(code_lines(text))))
        elif sign == ">":
            acts.append(reset(path))
    return acts


def _does_nothing(program: str, rest: list[str], output: str) -> bool:
    """Return whether a command only says what it would do, or its `output` has a complaint of it."""
    if not _REHEARSED.isdisjoint(rest) or (program == "git" and "-n" in rest):
        return True
    said = "fatal|error" if program == "git" else rf"(?:\S*/)?{re.escape(program)}"
    return re.search(rf"(?m)^(?:\S*sh: )?(?:line \d+: )?(?:{said}): ", output) is not None


def _is_refused(path: str, output: str) -> bool:
    """Return whether the output of a command says that a file could not be written."""
    name = re.escape(path.rsplit("/", 1)[-1])
    return re.search(rf"(?im)^(?=.*{name}).*(?:{_NO_FILE})", output) is not None


def _changes(command: Command, program: str, rest: list[str], paths: list[str]) -> list[Act]:
    """Return what a command that shows no file does to files."""
    verb = next((word for word in rest if not word.startswith("-")), "")
    if program == "git" and verb in _RESETS and not _HARMLESS.intersection(rest):
        named = [path for path in paths[1:] if "." in path.rsplit("/", 1)[-1]]
        return [reset(path) for path in named or [""]]
    if program == "git" and verb in ("rm", "mv"):
        program, paths = verb, paths[1:]
    if program == "rm":
        return [write(path, "") for path in paths] if "--cached" not in rest else []
    if program in ("mv", "cp", "sed", "perl", "patch", "dd"):
        return [reset(path) for path in (paths[-1:] if program == "cp" else paths)]
    if program == "apply_patch":
        return acts_of_patch(command.text or " ".join(rest[:1]), command.folder)
    return []


@lru_cache(maxsize=1)  # asked for what it did to files, and for how it ended
def commands_of(line: str, folder: str) -> list[Command]:
    """Return the simple commands of a line that is run in `folder`."""
    texts = [found[4] for found in _HEREDOC.finditer(line)]
    lexer = shlex.shlex(_HEREDOC.sub(r"<<HERE\3", line)[:LONGEST], posix=True, punctuation_chars="&|;<>()\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.wordchars += ":#@,+%"
    commands, sign = [Command()], ""
    try:
        for word in lexer:
            command = commands[-1]
            if sign.strip("&012") == "<<":
                command.text = texts.pop(0) if texts else None
            elif ">" in sign and not word.isdecimal():
                command.targets.append((">>" if ">>" in sign else ">", word))
            if sign:
                sign = ""
            elif word[:1] in ("<", ">") or word.startswith("&>"):
                if command.words and command.words[-1] in ("1", "2"):
                    command.words.pop()
                sign = word
            elif word and _ENDS.issuperset(word):
                command.ending = word.strip() or ";"
                commands.append(Command())
            else:
                command.words.append(word)
    except ValueError:  # a quote that is not closed
        commands[-1].ending = OPEN
    for command in commands:
        command.plain, command.folder = _plain_words(command.words), folder
        if command.plain[:1] == ["cd"]:
            folder = full_path(command.plain[1], folder) if len(command.plain) > 1 else folder
    return commands
