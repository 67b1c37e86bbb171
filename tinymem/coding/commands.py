"""Commands that fail and pass: the same line of a shell, run again in the same session and folder.

Nothing is said of a run of which it is not sure how it ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tinymem.coding.acts import FileNote
from tinymem.steps.content import clean

__all__ = ["FAILED", "FAILED_IN_WORDS", "FAILURES", "OTHERS", "PASSED", "QUIET", "UNSURE", "ends_of", "mark_of_pass",
           "outcome_of", "plain_line", "same_line"]  # fmt: skip

# How a run ended: its exit code says that it failed, or its words alone do; either says that it passed; or nothing is
# said, which is good news where a shell gives the exit code of what fails
FAILED, FAILED_IN_WORDS, PASSED, QUIET = range(16, 20)
FAILURES = {FAILED, FAILED_IN_WORDS}
SHOWN = 400  # characters of a text of which the beginning is shown
LONGEST = 2_000  # characters of one that is compared
HEAD, TAIL = 400, 3_000  # characters of a result that are looked at

# Exit codes where Claude Code, Codex and mini-swe-agent put them, and where pi, OpenHands, Gemini and Copilot CLI do
_CODE_BEFORE = re.compile(
    r"\A\s*(?:Error: )?(?:Exit code:? (-?\d+)|<returncode>(-?\d+)</returncode>)|(?m:^Process exited with code (\d+)$)"
)
_CODE_BEHIND = re.compile(
    r"(?:(?:command|<shellId: \d+) (?:completed|finished|exited) with (?:exit )?code (-?\d+)\.?[\]>]?|"
    r"^Exit Code: (-?\d+)(?:\n(?:Signal|Background PIDs|Process Group PGID): .*)*|"
    r"<returncode>(-?\d+)</returncode>|\"exit_code\": ?(-?\d+)[^{]{0,60}\}+)\s*(?:</untrusted_context>\s*)?\Z",
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
    r"Successfully (?:installed|built)|^added \d+ packages|test result: ok|^ *Finished [`\w]",
    re.MULTILINE,
)
# Of a line: endings that are not those of its commands, and what only shows less of the same
UNSURE = re.compile(r"<<|\|\||;|[()`]|(?<![&|>])&(?![&\d])|\b(?:for|while|if)\b")
_SHOWS_LESS = re.compile(r"\s*(?:2>&1|\|\s*(?:tail|head)\b[^|;&]*)")
_SIGNS = re.compile(r"[^\w ./@:=+,%~*'\"&(){};$!?-]+")  # which only a memory writes, among others
OTHERS = frozenset(  # what shows and arranges, and is run for the sake of something else
    """
    ag awk cat cd chmod cp curl cut date df diff du echo egrep env export fd file find git grep head jq kill less
    ln ls lsof mkdir more mv nl pgrep pkill printf ps pwd rg rm sed sleep sort source stat tail tee test touch tr tree
    true type uniq wc wget which xargs
    """.split()  # noqa: SIM905
)


def same_line(line: str) -> str:
    """Return a line without what only shows less of the same."""
    return " ".join(_SHOWS_LESS.sub("", line[:LONGEST]).split())


def ends_of(result: str) -> str:
    """Return the two ends of a result, which say how a command ended."""
    return result if len(result) <= HEAD + TAIL else f"{result[:HEAD]}\n{result[-TAIL:]}"


def outcome_of(said: str, is_error: bool) -> int | None:
    """Return how a command ended; None where that is not sure, as where its exit code and its words disagree."""
    found = _CODE_BEFORE.search(said[:HEAD]) or _CODE_BEHIND.search(said[-HEAD:])
    code = int(next(filter(None, found.groups()))) if found else None
    if _NOT_RUN.search(said):
        return None
    if code or (is_error and code is None):
        return FAILED
    is_good = _GOOD.search(said)
    if _BAD.search(said) or (not is_good and _ERROR.search(said)):
        return None if code == 0 else FAILED_IN_WORDS
    return PASSED if code == 0 or is_good else QUIET


def mark_of_pass(notes: Sequence[FileNote], step: int) -> str:
    """Return what says which run passed after one in a `step` failed, of the notes of one command; "" for none.

    There is none where the newest run failed again.
    """
    kinds = [note.act.kind for note in notes if note.step == step]
    if FAILURES.isdisjoint(kinds) or notes[-1].act.kind in FAILURES:
        return ""
    passing = (PASSED, QUIET) if any(note.act.kind == FAILED for note in notes) else (PASSED,)
    first = next((note for note in notes if note.step > step and note.act.kind in passing), None)
    return f"later: #{first.step} {bytes(first.act.lines).decode('utf-8', 'replace')} passed" if first else ""


def plain_line(text: str, most: int) -> str:
    """Return the beginning of a command, or of a line of a file, without signs that only a memory writes."""
    plain = " ".join(_SIGNS.sub("…", clean(text[:SHOWN])).split())
    return plain if len(plain) <= most else f"{plain[:most]}…"
