"""Lines of shell commands: files that they show, and those of which nobody knows afterwards what stands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from functools import lru_cache

from tinymem.coding.acts import SEEN, Act, acts_of_patch, full_path, read, reset
from tinymem.coding.lines import code_lines

__all__ = ["LONGEST", "OPEN", "PROGRAM_VERSION", "Command", "acts_of_command", "acts_of_search", "commands_of"]

MOST_TEXTS = 32  # here-documents in a command: of one with more nobody knows what it did
LONGEST = 6_000  # characters of a command, without the texts in it
PATCH = "*** Begin Patch"
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_FOUND = re.compile(r"(?m)^((?:[A-Za-z]:)?[^\s:]{1,300}):\d+[:](.*)$")
_PLAIN = re.compile(r"[\w./~@+-]*[A-Za-z_][\w./~@+-]*")  # a path without wildcards and variables
_OPTION = re.compile(r"-|[sy]([/|,]).*\1")  # or what sed is to do
_RESETS = {"checkout", "restore", "stash", "reset", "revert", "switch"}
_HARMLESS = {"-b", "-B", "-c", "list", "show", "--soft"}
_WHOLE = {"cat", "nl", "bat"}  # what shows all of a file as it is
_SHOW = {*_WHOLE, "less", "more", "head", "tail"}
_FILTER = {"sed", "perl", "awk"}
_CHANGE = {*_FILTER, "mv", "cp", "patch", "tee"}
_SEARCH = {"grep", "egrep", "rg", "ag"}
_SILENT = {"", "cd", "mkdir", "touch", "chmod", "export", "set"}
PROGRAM_VERSION = re.compile(r"(python|pip|py|node)[\d.]*(?:\.exe)?")
# What only says how a command is run, its words with \0 between them
_RUNNERS = re.compile(
    r"\A(?:(?:\w+=[^\0]*|sudo|time|nohup|command|exec|env|winpty|then|do|else|\{|!|npx|bunx|pnpx|uvx|"
    r"timeout(?:\0-[^\0]*)*\0\d[^\0]*|(?:uv|poetry|pipenv|rye|hatch|pdm)\0run|(?:pnpm|yarn|npm|bundle|mise)\0exec|"
    r"(?:[^\0]*/)?py(?:thon)?[\d.]*(?:\.exe)?\0-m)(?:\0-[^\0]*)*(?:\0|\Z))+"
)
_ENDS = set("&|;\n()")
OPEN = "'"  # the ending of a command whose quote is not closed


@dataclass
class Command:
    """A simple command of a line: its words, and the files that its output replaces.

    Its `plain` words are those without what only says how it is run, as `sudo`, `FOO=1`, `timeout 60`, `uv run`; it
    works in `folder`.
    """

    words: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    is_redirected: bool = False
    ending: str = ""  # what stands behind it
    plain: list[str] = field(default_factory=list)
    folder: str = ""


def acts_of_command(line: str, output: str, folder: str = "", is_cut: bool = False) -> list[Act]:
    """Return which files the commands of a line changed, and what they showed in its `output`, which may be cut."""
    if line.count("<<") > MOST_TEXTS:
        return [reset("")]
    commands = commands_of(line, folder)
    if PATCH in line:
        return acts_of_patch(line, commands[-1].folder)
    acts: list[Act] = []
    shown: list[str] = []
    is_search, is_whole = False, not is_cut
    for command in commands:
        program, *rest = command.plain or [""]
        program = program.rsplit("/", 1)[-1]
        words = [word for word in rest if _PLAIN.fullmatch(word) and not _OPTION.match(word)]
        paths = [full_path(word, command.folder) for word in words]
        is_changing = program not in _FILTER or any(word.startswith(("-i", "-pi")) for word in rest)
        if program in _CHANGE and is_changing:
            acts += map(reset, paths)
        elif program == "git" and not _RESETS.isdisjoint(rest) and _HARMLESS.isdisjoint(rest):
            acts += map(reset, [path for path in paths[1:] if "." in path.rsplit("/", 1)[-1]] or [""])
        acts += [reset(full_path(name, command.folder)) for name in command.targets]
        if command.is_redirected:
            continue
        if program in _SEARCH:
            is_search = True
            shown += [path for path in paths[-1:] if "." in path.rsplit("/", 1)[-1].strip(".")]
        elif program in _SHOW or (program in _FILTER and not is_changing):
            shown += paths if program in _SHOW else paths[-1:]
            is_whole = is_whole and program in _WHOLE and command.ending != "|"
        else:
            is_whole = is_whole and program in _SILENT
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
        found.setdefault(full_path(match[1], folder), []).append(match[2])
    if not found:
        return [read(path, output, is_whole=False)] if path else []
    return [Act(name, SEEN, tuple(code_lines("\n".join(lines)))) for name, lines in sorted(found.items())]


@lru_cache(maxsize=1)  # asked for what it did to files, and for how it ended
def commands_of(line: str, folder: str) -> list[Command]:
    """Return the simple commands of a line that is run in `folder`."""
    lexer = shlex.shlex(_HEREDOC.sub(r"<<HERE\3", line)[:LONGEST], posix=True, punctuation_chars="&|;<>()\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.wordchars += ":#@,+%"
    commands, sign = [Command()], ""
    try:
        for word in lexer:
            command = commands[-1]
            if sign:
                is_file = ">" in sign and not word.isdecimal() and not word.startswith("/dev/")
                command.is_redirected |= ">" in sign and not word.isdecimal()
                command.targets += [word] if is_file and ">>" not in sign else []
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
        words = "\0".join(filter(str.strip, command.words))
        command.plain, command.folder = [*filter(None, _RUNNERS.sub("", words).split("\0"))], folder
        if command.plain[:1] == ["cd"]:
            folder = full_path(command.plain[1], folder) if len(command.plain) > 1 else folder
    return commands
