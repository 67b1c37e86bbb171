"""Lines of shell commands: files that they show, and change."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from tinymem.recall.files.acts import RESET, SEEN, UNKNOWN, Act, full_path, read, unknown, write
from tinymem.recall.files.lines import code_lines
from tinymem.recall.files.patches import acts_of_patch

__all__ = ["LONGEST", "OPEN", "Command", "acts_of_command", "acts_of_search", "commands_of", "may_concern_files"]

MOST_TEXTS = 32  # here-documents in a command: of one with more nobody knows what it did
LONGEST = 6_000  # characters of a command, without the texts in it
_WORTH = re.compile(r"\b(?:cat|bat|nl|less|more|head|tail|sed|awk|e?grep|rg|ag|rm|mv|cp|tee|patch|git|perl|dd|fmt)\b|>|"
                    r"\b(?:format|fix|write|prettier|black|ruff|isort|gofmt|rustfmt|biome|apply_patch)\b")  # fmt: skip
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n(.*?)\n?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_FOUND = re.compile(r"(?m)^((?:[A-Za-z]:)?[^\s:]{1,300}):\d+[:](.*)$")
_PLAIN = re.compile(r"[\w./~@+-]*[A-Za-z_][\w./~@+-]*")  # a path without wildcards and variables
_OPTION = re.compile(r"-|[sy]([/|,]).*\1")  # or what sed is to do
_REFORMATS = re.compile(
    r"\b(?:prettier|biome|stylelint|eslint|oxlint)\b.*\s(?:--write|-w|--fix)\b|\bruff\b.*(?:format|--fix)\b|"
    r"\b(?:black|isort|autopep8|yapf|rustfmt|shfmt|gofmt|goimports|clang-format|rubocop)\b(?!.*--(?:check|diff))|"
    r"\b(?:cargo|go|mix|deno|dart|terraform|dotnet|zig|just|make)\s+(?:fmt|format|fix)\b|"
    r"\b(?:npm|pnpm|yarn|bun)\b.*\b(?:format|fix|lint:fix)\b"
)
_RESETS = {"checkout", "restore", "stash", "reset", "revert", "switch"}
_BRINGS = {"pull", "merge", "rebase", "cherry-pick", "apply", "am"}
_HARMLESS = {"-b", "-B", "-c", "list", "show", "--abort", "--stat", "--check", "--soft"}
_SHOW = {"cat", "bat", "nl", "less", "more", "head", "tail"}
_ENDS = set("&|;\n()")
OPEN = "'"  # the ending of a command whose quote is not closed


@dataclass
class Command:
    """A simple command of a line: its words, the files that its output goes to, the text that it is given."""

    words: list[str] = field(default_factory=list)
    targets: list[tuple[str, str]] = field(default_factory=list)
    text: str | None = None  # of a here-document
    ending: str = ""  # what stands behind it

    @property
    def is_piped(self) -> bool:
        """True if its output goes to another command."""
        return "|" in self.ending.replace("||", "")


def may_concern_files(command: str) -> bool:
    """Return False where a command surely has to do with no file."""
    return _WORTH.search(command) is not None


def acts_of_command(command: str, output: str, folder: str = "", is_cut: bool = False) -> list[Act]:
    """Return what a command did to files, and showed of them in its `output`, which may be cut."""
    if command.count("<<") > MOST_TEXTS:
        return [unknown("")]
    acts: list[Act] = []
    shown: list[str] = []
    searches, others = False, 0
    commands = commands_of(command)
    for each in commands:
        words = each.words
        while words and ("=" in words[0].split("/")[0] or words[0] in ("sudo", "time", "then", "do", "else", "{", "!")):
            words = words[1:]
        program, rest = (words[0].rsplit("/", 1)[-1], words[1:]) if words else ("", [])
        if program == "cd":
            folder = full_path(rest[0], folder) if rest else folder
            continue
        paths = [full_path(word, folder) for word in rest if _PLAIN.fullmatch(word) and not _OPTION.match(word)]
        acts += _redirected(each, program, rest, folder)
        if each.targets:
            continue
        if program in _SHOW and not each.text:
            shown += [path for path in paths if not path.rsplit("/", 1)[-1].isdecimal()]
            others += program not in ("cat", "nl", "bat") or each.is_piped
        elif program in ("sed", "perl", "awk") and not any(word.startswith(("-i", "-pi")) for word in rest):
            shown += paths[-1:] if len(rest) > 1 else []
            others += 1
        elif program in ("grep", "egrep", "rg", "ag", "find"):
            searches, others = True, 1
            said = [word for word in rest if word[:1] not in ("-", "") and not word.isdecimal()]
            files = [full_path(word, folder) for word in said[0 if "-e" in rest else 1 :] if _PLAIN.fullmatch(word)]
            shown += [path for path in files if "." in path.rsplit("/", 1)[-1].strip(".")]
        else:
            acts += _changes(program, rest, paths, folder, each)
            others += program not in ("", "rm", "mkdir", "touch", "chmod", "export", "set", "apply_patch")
    if searches:
        acts += acts_of_search(output, folder, shown[0] if len(set(shown)) == 1 else "")
    elif shown:
        is_whole = len(shown) == 1 and not others and not is_cut
        acts += [read(path, output, is_whole) for path in dict.fromkeys(shown)]
    return [*dict.fromkeys(acts)]


def acts_of_search(output: str, folder: str, path: str = "") -> list[Act]:
    """Return the acts of seeing what a search found, in the files that it names, or in the one at `path`."""
    found = [(full_path(match[1], _base(folder, match[1])), match[2]) for match in _FOUND.finditer(output)]
    if not found:
        return [read(path, output, is_whole=False)] if path else []
    by_path = groupby(sorted(found), key=lambda pair: pair[0])
    return [Act(name, SEEN, tuple(code_lines("\n".join(line for _, line in lines)))) for name, lines in by_path]


def _base(folder: str, path: str) -> str:
    """Return the folder that a found path starts from: `folder`, or the one above it that holds what the path names."""
    parts, first = folder.split("/"), path.replace("\\", "/").split("/", 1)[0]
    return "/".join(parts[: parts.index(first)]) if first in parts and first else folder


def _redirected(command: Command, program: str, rest: list[str], folder: str) -> list[Act]:
    """Return what the output of a command does to the files that it goes to."""
    targets = [(sign, full_path(path, folder)) for sign, path in command.targets if not path.startswith("/dev/")]
    if program == "tee":
        targets += [
            (">>" if "-a" in rest else ">", full_path(path, folder)) for path in rest if not path.startswith("-")
        ]
    text = command.text if program in ("tee", "cat") else None
    acts = []
    for sign, path in targets:
        if text is None:
            acts += [unknown(path)] if sign == ">" else []
        else:
            acts.append(write(path, text) if sign == ">" else Act(path, SEEN, tuple(code_lines(text))))
    return acts


def _changes(program: str, rest: list[str], paths: list[str], folder: str, command: Command) -> list[Act]:
    """Return what a command that shows no file does to files."""
    verb = next((word for word in rest if not word.startswith("-")), "")
    if program == "git" and verb in _RESETS | _BRINGS and not _HARMLESS.intersection(rest):
        named = [path for path in paths[1:] if "." in path.rsplit("/", 1)[-1]]
        return [Act(path, RESET if verb in _RESETS else UNKNOWN) for path in named or [""]]
    if program == "git" and verb in ("rm", "mv"):
        program, paths = verb, paths[1:]
    if program == "rm":
        return [write(path, "") for path in paths] if "--cached" not in rest else []
    if program in ("mv", "cp", "sed", "perl", "patch", "dd"):
        return [unknown(path) for path in (paths[-1:] if program == "cp" else paths)]
    if program == "apply_patch":
        return acts_of_patch(command.text or (rest[0] if rest else ""), folder)
    if _REFORMATS.search(" ".join([program, *rest])):
        return [unknown("")]
    return []


@lru_cache(maxsize=1)  # asked for what it did to files, and for how it ended
def commands_of(line: str) -> tuple[Command, ...]:
    """Return the simple commands of a line."""
    return (*_commands_in(line),)


def _commands_in(line: str) -> Iterator[Command]:
    texts = [found[4] for found in _HEREDOC.finditer(line)]
    lexer = shlex.shlex(_HEREDOC.sub(r"<<HERE\3", line)[:LONGEST], posix=True, punctuation_chars="&|;<>()\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.wordchars += ":#@,+%"
    command, sign = Command(), ""
    try:
        for word in lexer:
            if sign:
                if sign.strip("&012") == "<<":
                    command.text = texts.pop(0) if texts else None
                elif ">" in sign and not word.isdecimal():
                    command.targets.append((">>" if ">>" in sign else ">", word))
                sign = ""
            elif word[:1] in ("<", ">") or word.startswith("&>"):
                if command.words and command.words[-1] in ("1", "2"):
                    command.words.pop()
                sign = word
            elif word and _ENDS.issuperset(word):
                command.ending = word.strip() or ";"
                yield command
                command = Command()
            else:
                command.words.append(word)
    except ValueError:  # a quote that is not closed
        command.ending = OPEN
    yield command
