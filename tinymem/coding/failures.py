"""Failures that are known again: a program, and the lines that say what went wrong, but for numbers and folders."""

from __future__ import annotations

import re
from typing import NamedTuple

from tinymem.coding.acts import Act, short_hash
from tinymem.coding.commands import (
    FAILED,
    FAILURES,
    OTHERS,
    PASSED,
    QUIET,
    UNSURE,
    ends_of,
    outcome_of,
    plain_line,
    same_line,
)
from tinymem.coding.shell import commands_of

__all__ = ["RUN", "ShellRun"]

RUN = "run://"  # how the path of a note of a run begins, and no other
FAILS = "fails://"  # how the path of a note of a line of a failure begins, and no other
FAILED_SO = 20  # the kind of such a note
MOST_LINES = 12  # of a failure
LONGEST_LINE = 400  # characters of one: longer ones are data
MOST_SHOWN = 60  # characters of a command
SAYING = 2  # words that a line has at least besides those that any failure has

_TELLS = re.compile(
    r"(?:\b|\w)(?:error|exception|fatal|panic|fail(?:ed|ure)?)\b|"
    r"\b(?:cannot|can't|could not|unable to|not found|no such|no module|missing|undefined|unknown|invalid|unexpected|"
    r"unrecognized|denied|refused|conflicts?|unresolved|ignored by|already (?:exists|in use|allocated)|has no|required|"
    r"not (?:defined|allowed|permitted|recognized|installed|used|assignable)|does not exist|timed out)\b|"
    r"^[^\s:]+\.\w+[:(]\d+[:,]\d+\)?:? |^\s*\d+\) |^\w+(?:\.\w+)+: ",
    re.IGNORECASE,
)
_TELLS_NOTHING = re.compile(  # code, places in it, counts, and what passed
    r"\s*(?:(?:raise|except|return|if|def|assert|import|from|at|File|Traceback)\b|self\.|>|#|//|\* |\d+ *\||[\w.]+ = )"
    r"|\s*npm (?:ERR!|error) (?:code|path|command|errno|location|workspace|A complete|Lifecycle|\s)|hint:"
    r"|During handling|The above"
    r"|.*(?:\bPASSED\b|\bwarning\b|status_code|\b\d+ (?:passed|failed|errors?|failures?)\b|exit(?:ed)? (?:code|sta))",
    re.IGNORECASE,
)
_ABSENT = re.compile("No module named|command not found")  # whatever needs it fails
_ESCAPES = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_FOLDERS = re.compile(r"(?:[A-Za-z]:)?[\w.@~+-]*[/\\](?:[\w.@+-]+[/\\])*(?=[\w.@+-])")
_NUMBERS = re.compile(r"\b(?:0x)?(?=[a-f]*\d)[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*", re.IGNORECASE)
_SIGNS = re.compile(r"[^\w.'\"@<>=!-]+")
_WORDS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|[^\W\da-zA-Z_]{2,}")
_ANY = frozenset(  # words that any failure may have
    """
    actual an and are assertion assertionerror at be build by call code command console could down due during equality
    err error errors exception exit expected fail failed failing failure fatal file files for found from has in info
    invalid is it last line log module more most no not npm object of on or process ran received recent returned run
    runtime see seconds stderr stdout suite suites syntax syntaxerror test tests the to traceback true false typeerror
    undefined unexpected value valueerror was with
    """.split()  # noqa: SIM905
)
_ASIDE = OTHERS - {"git"} | {*" command do done exit fi for if set then where while".split(" ")}  # noqa: SIM905
_BEFORE = frozenset("bun bunx compose npx pipenv poetry python python3 run sudo timeout uv".split())  # noqa: SIM905
_MANY = frozenset("cargo docker dotnet git go kubectl make mix npm pnpm yarn".split())  # noqa: SIM905
_NO_WORD = "-'0123456789"  # what begins an option, a text and a number
_UNSAFE = re.compile(r"[(){};$!?]+")  # in a mark, which stands between brackets
_FOLDER = re.compile(r"\Acd [^&]+ && ")
_FILE = re.compile(r"[\w.@+-]+\.[A-Za-z]\w{0,9}\b")


class ShellRun(NamedTuple):
    """The run of a shell's line: the words of the last command in it that does something, its result, how it ended.

    The `whole` line lacks what only shows less of the same.
    """

    whole: str
    words: tuple[str, ...]
    result: str
    ended: int | None
    folder: str  # where it runs
    is_gits: bool  # what it does, git does

    @classmethod
    def of(cls, line: str, result: str, is_error: bool, folder: str = "") -> ShellRun | None:
        """Return the run of a line; None for one that only shows and arranges."""
        commands = [c for c in commands_of(line) if c.program not in _ASIDE and c.program[:1] != "#"]
        if not commands:
            return None
        words, ends = (commands[-1].program, *commands[-1].words), ends_of(result)
        is_gits = all(command.program == "git" for command in commands)
        return cls(same_line(line), words, ends, outcome_of(ends, is_error), folder, is_gits)

    @property
    def line(self) -> str:
        """The line without the folder that it goes to first."""
        return _FOLDER.sub("", self.whole)

    @property
    def outcome(self) -> int | None:
        """The end of the last command; None where that is not sure, as where a filter may hide all."""
        is_sure = self.ended in (FAILED, PASSED) or not ("|" in self.whole or UNSURE.search(self.whole))
        return self.ended if is_sure else None

    def acts(self, session: str | None) -> list[Act]:
        """Return the acts that note how it ended, where that is sure, and how it failed."""
        failed = [Act(key, FAILED_SO) for key in self.keys]
        if self.ended is None or self.is_gits or UNSURE.search(self.whole):
            return failed
        key = RUN + short_hash("\0".join([session or "", self.folder, self.whole]))
        shown = _UNSAFE.sub("…", plain_line(self.line, MOST_SHOWN))
        return [Act(key, self.ended, (*shown.encode("utf-8", "replace"),)), *failed]

    @property
    def command(self) -> str:
        """The last command as it is said."""
        return " ".join(self.words)

    @property
    def program(self) -> str:
        """The program that is run, with its first word where it does many things."""
        said = [word for word in self.words if word[:1] not in _NO_WORD and word not in _BEFORE]
        return " ".join(said[: 1 + _MANY.issuperset(said[:1])]) or self.words[0]

    @property
    def is_absent(self) -> bool:
        """True where something was not installed."""
        return _ABSENT.search(self.result) is not None

    @property
    def keys(self) -> list[str]:
        """The keys of the lines that say what went wrong; none where it has not failed."""
        lines = _told(self.result) if self.outcome in FAILURES else ()
        return [FAILS + short_hash(line if _ABSENT.search(line) else f"{self.program}\0{line}") for line in lines]

    def passes(self, failed: ShellRun) -> bool:
        """Return True if it passed, and did what another one failed to do."""
        if self.program != failed.program or self.outcome not in (PASSED, QUIET):
            return False
        if "''" in failed.words and self.line != failed.line:  # another program, or message
            return failed.is_absent
        files = {*_FILE.findall(self.command)}
        return not files or not files.isdisjoint(_FILE.findall(f"{failed.command} {failed.result}"))


def _told(result: str) -> list[str]:
    """Return the first lines of a result that say what went wrong, without numbers and folders."""
    told, least = dict[str, None](), ""
    for line in _ESCAPES.sub("", result).splitlines():
        if len(line) <= LONGEST_LINE and _TELLS.search(line) and not _TELLS_NOTHING.match(line):
            plain = _NUMBERS.sub("0", _FOLDERS.sub("", line.removeprefix("E  ")))
            least = " ".join(_SIGNS.sub(" ", plain).split())
            words = [word for word in _WORDS.findall(least) if word.lower() not in _ANY]
            if len(words) >= SAYING:
                told[least] = None
    named = [] if told or not least else _FILE.findall(result)  # of the last of them, a line that says little is told
    return [f"{least} {named[-1]}"] if named else [*told][:MOST_LINES]
