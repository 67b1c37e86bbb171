"""Commands that fail and pass: what a command was run for, and how it ended.

Two runs are for the same end if their program, its targets and their folder are the same: `pytest tests -q` and
`uv run python -m pytest tests/`. Nothing is said of a run of which it is not sure how it ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from tinymem.coding.acts import FileNote
from tinymem.coding.shell import LONGEST, OPEN, PROGRAM_VERSION, commands_of
from tinymem.steps.content import clean

__all__ = ["FAILED", "FAILED_IN_WORDS", "FAILURES", "PASSED", "QUIET", "RUN", "CommandRun", "exit_code", "mark_of_pass",
           "path_of_run", "run_of"]  # fmt: skip

# How a run ended: its exit code says that it failed, or its words alone do; either says that it passed; or nothing is
# said, which is good news where a shell gives the exit code of what fails
FAILED, FAILED_IN_WORDS, PASSED, QUIET = range(16, 20)
FAILURES = (FAILED, FAILED_IN_WORDS)
RUN = "run://"  # how the path of a note of a run begins, and no other
MOST_SHOWN = 60  # characters of a command
MOST_RUNS = 6  # commands in a line
HASH = 8  # bytes of the hash of an end
HEAD, TAIL = 400, 3_000  # characters of a result that are looked at

# Exit codes where Claude Code, Codex and mini-swe-agent put them, and where pi, OpenHands and Gemini CLI do
_CODE_BEFORE = re.compile(
    r"\A\s*(?:Error: )?(?:Exit code:? (-?\d+)|<returncode>(-?\d+)</returncode>)|(?m:^Process exited with code (\d+)$)"
)
_CODE_BEHIND = re.compile(
    r"(?:command (?:completed|finished|exited) with (?:exit )?code (-?\d+)\.?\]?|"
    r"^Exit Code: (-?\d+)(?:\n(?:Signal|Background PIDs|Process Group PGID): .*)*|"
    r"<returncode>(-?\d+)</returncode>|\"exit_code\": ?(-?\d+)[^{]{0,60}\}+)\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_RUN = re.compile(  # or nobody waited for its end
    r"doesn't want to|was rejected|interrupted by|permission to use|requires approval|<tool_use_error>|"
    r"running in (?:the )?background|moved to background|background PIDs: \d|process running with session",
    re.IGNORECASE,
)
_BAD = re.compile(
    r"(?<![\d.,/])[1-9][\d,]* (?:tests? |examples? |suites? )?(?:fail(?:ed|ing|ures?)?|errors?)\b|\bFAIL(?:ED|URE)?\b"
)
_ERROR = re.compile(  # that may have been handled
    r"Traceback \(most recent call last\)|\berror TS\d|\bnpm (?:ERR!|error)|command not found|No module named|"
    r"^[ \t]*(?:\[?ERROR\]?|fatal|panic|\w*[Ee]rror|\w+Exception)(?:\[\w+\])?:(?! \(none\))|[Bb]uild failed|"
    r"Segmentation fault|^make: \*\*\*|[✗✘✖❌]|No such file or directory|\bexit(?:ed)?(?: code| status)?[ :=]+[1-9]",
    re.MULTILINE,
)
_GOOD = re.compile(
    r"(?<![\d.,/])[1-9][\d,]* (?:tests? )?pass(?:ed|ing)?\b|(?<![\d.,])0 (?:failures|errors|fail(?:ed)?)\b|"
    r"^OK(?: \(.*\))?$|no issues found|All checks passed|\bbuilt in \d|^ok  \t|BUILD SUCCESS|Build succeeded|"
    r"Successfully (?:installed|built)|^added \d+ packages|test result: ok|^ *Finished [`\w]|"
    r"\bexit(?:ed)?(?: code| status)?[ :=]+0$",
    re.MULTILINE,
)
_FLOW = frozenset("for while until if case function ! { [[ do then else elif select".split())  # noqa: SIM905
_OTHERS = frozenset(  # what shows and arranges, and is run for the sake of something else
    """
    [ [[ ag alias awk basename bat cat cd chmod chown clear comm cp curl cut date declare df diff dirname du echo egrep
    env exit export false fd file find free grep head hexdump history id jq kill less ln locate ls lsof md5 md5sum mkdir
    more mv netstat nl od pgrep pkill popd printenv printf ps pushd pwd read readlink realpath rg rm rmdir sed seq set
    sha256sum shopt sleep sort source ss stat strings tail tee test top touch tr tree true type ulimit umask uname uniq
    unset wait watch wc wget whereis which whoami xargs xxd yes . :
    """.split()  # noqa: SIM905
)
_GIT = frozenset(
    "add am apply checkout cherry-pick clone commit fetch merge pull push rebase stash switch tag".split()  # noqa: SIM905
)
# Options that change how a command tells of its work, or how hard it tries, and not what the work is
_TELLING = re.compile(
    r"-(?:[vqsxlyuU]+|r[aAfsN]|j\d*)|--(?:verbose|quiet|silent|tb|no-header|no-summary|durations|colou?rs?|no-colou?r|"
    r"maxfail|yes|exitfirst|showlocals|full-trace|capture|progress|no-progress|pretty|no-cov|reporter|retries|jobs|"
    r"workers|bail|loglevel|foreground-scripts|timeout|disable-warnings|no-audit|no-fund|force|legacy-peer-deps|"
    r"prefer-offline|no-cache-dir|force-with-lease|stacktrace|verbosity|parallel|keepdb|max-cases|seed|trace|"
    r"set-upstream|no-verify|break-system-packages|user|upgrade|no-build-isolation)(?:=.*)?"
)
_WITH_VALUE = ("-n", "-p", "-W", "--tb", "--maxfail", "--timeout", "--durations", "--color", "--capture")  # of pytest
_UNSURE = re.compile(rf"[(){OPEN}]|(?<![&|])&(?!&)|;;")  # endings of jobs, branches and open quotes
_UNSAFE = re.compile(r"[^\w ./@:=+,%~*'\"&-]+")


class CommandRun(NamedTuple):
    """A run of a command: the end that it was for, in a form to compare, how it ended, and itself in a line to show."""

    end: str
    outcome: int
    text: str


def run_of(line: str, folder: str, result: str, is_error: bool = False) -> CommandRun | None:
    """Return the run of a shell's line, of all its commands together; None where it is not sure how it ended."""
    said = result if len(result) <= HEAD + TAIL else f"{result[:HEAD]}\n{result[-TAIL:]}"
    commands = commands_of(line, folder) if len(line) <= LONGEST and "<<" not in line else []
    is_unsure = any(_UNSURE.search(command.ending) or not _FLOW.isdisjoint(command.words[:1]) for command in commands)
    commands = [command for command in commands if command.words and not command.words[0].startswith("#")]
    ends = [_end_of([*takewhile(_is_no_comment, command.plain)]) for command in commands]
    runs = [place for place, end in enumerate(ends) if end is not None]
    if is_unsure or _NOT_RUN.search(said) or not 0 < len(runs) <= MOST_RUNS:
        return None
    # an exit code is that of the last command, or of the first that failed
    is_theirs = all(command.ending == "&&" for command in commands[runs[0] : -1])
    outcome = _outcome(said, is_error, len(runs) == 1, ends[-1] is not None, is_theirs)
    if outcome is None:
        return None
    texts = [" ".join(takewhile(_is_no_comment, filter(str.strip, commands[place].words))) for place in runs]
    end = " && ".join(f"{commands[place].folder}$ {ends[place]}" for place in runs)
    return CommandRun(end, outcome, _shown(" && ".join(texts)))


def _is_no_comment(word: str) -> bool:
    return not word.startswith("#")


def _end_of(words: Sequence[str]) -> str | None:
    """Return what a command is run for: its program, what that works on, and the options that choose among it.

    None stands for what is run for the sake of something else.
    """
    program = words[0].rsplit("/", 1)[-1] if words else ""
    versioned = PROGRAM_VERSION.fullmatch(program)
    program = versioned[1] if versioned else program
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    if not program or program in _OTHERS or (program == "git" and verb not in _GIT):
        return None
    with_value = _WITH_VALUE if program == "pytest" else ()
    ends = [program.replace("docker-compose", "docker compose")]
    before = ""
    for word in words[1:]:
        is_value = before in with_value or (word.isdecimal() and _TELLING.fullmatch(before) is not None)
        before = "" if is_value else word
        plain = word.removeprefix("./").rstrip("/")
        says_nothing = plain in ("", ".", "--", "run") or word in with_value or _TELLING.fullmatch(word)
        if not is_value and not says_nothing:
            ends.append(plain)
    return " ".join(ends)


def _outcome(said: str, is_error: bool, is_alone: bool, is_last: bool, is_theirs: bool) -> int | None:
    """Return how some runs, or one that `is_alone`, ended together; None where that is not sure.

    An exit code that `is_theirs` says that all passed; that some failed only if they are what is run last.
    """
    code = exit_code(said)
    is_good = _GOOD.search(said) is not None
    is_bad = _BAD.search(said) is not None or (not is_good and _ERROR.search(said) is not None)
    if is_theirs and (code or (is_error and code is None)):
        return FAILED if is_last or is_bad else None
    if is_bad:
        return FAILED_IN_WORDS if is_alone and not (is_theirs and code == 0) else None
    if (is_theirs and code == 0) or (is_alone and is_good and not is_error):
        return PASSED
    return QUIET if is_theirs and code is None else None


def exit_code(said: str) -> int | None:
    """Return the exit code that a result names; None where it names none."""
    found = _CODE_BEFORE.search(said[:HEAD]) or _CODE_BEHIND.search(said[-HEAD:])
    return int(next(filter(None, found.groups()))) if found else None


def path_of_run(run: CommandRun, session: str | None) -> str:
    """Return what stands for the path in a note of a run: the same for the same end in the same session."""
    end = f"{clean(session or '')}\0{run.end}"
    return RUN + blake2b(end.encode("utf-8", "replace"), digest_size=HASH).hexdigest()


def mark_of_pass(notes: Sequence[FileNote], step: int) -> str:
    """Return what says which run passed after one in a `step` failed, of the notes for one end; "" for none.

    There is none where the newest run failed again.
    """
    is_failure = any(note.step == step and note.kind in FAILURES for note in notes)
    if not is_failure or notes[-1].kind in FAILURES:
        return ""
    passing = (PASSED, QUIET) if any(note.kind == FAILED for note in notes) else (PASSED,)
    passed = [note for note in notes if note.step > step and note.kind in passing]
    return f"later: #{passed[0].step} {passed[0].lines.decode('utf-8', 'replace')} passed" if passed else ""


def _shown(text: str) -> str:
    """Return a command in one short line, without what could be read as the end of a mark, or as another one."""
    line = " ".join(_UNSAFE.sub("…", clean(text[: 4 * MOST_SHOWN])).split())
    return line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN - 1].rstrip()}…"
