"""Privacy in hooks: text in private tags, the patterns of what is redacted, and projects that are left alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

from tinymem.errors import InputError
from tinymem.steps.redaction import Redact

__all__ = ["SECRETS", "is_left_alone", "redact_with", "without_private"]

PRIVATE, REDACTED = "[private]", "[redacted]"
SECRETS = "secrets"  # the name of these patterns; what stands before a secret stays
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
    r"|\b(?:A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_\w{20,}"
    r"|pypi-[\w-]{20,}|hf_\w{20,}|sk-[\w-]{16,}|[sr]k_live_\w{16,}|xox[a-z]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"
    r"|(?i:\b((?:basic|bearer)\s+)[\w.~+/=-]{12,})"
    r"|(?i:((?:passw(?:or)?d|passphrase|secret|token(?!s)|api[_-]?key|access[_-]?key)[\w-]{0,20}[\"']?\s{0,9}[=:]\s{0,9}[\"']?)"
    r"[^\s\"',;]{6,})"
    r"|\b([a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,100}:)[^\s/@]{3,}(?=@)"
)
_TAG = re.compile(r"<(/?)private\s*>", re.IGNORECASE)


def without_private(text: str, instead: str = PRIVATE) -> str:
    """Replace what stands in `<private>` tags, nested or over many lines; without an end, all that follows is private.

    >>> without_private("The code <private>is 4711</private> works.")
    'The code [private] works.'
    """
    kept: list[str] = []
    depth = end = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            kept += [text[end : tag.start()], instead] if depth == 0 else []
            depth += 1
        elif depth:  # an end without a beginning is a text
            depth -= 1
            end = tag.end()
    return "".join([*kept, "" if depth else text[end:]])


def redact_with(patterns: Sequence[str]) -> Redact:
    """Return what takes private text and the matches of regular expressions out of a text.

    Args:
        patterns: The expressions; the word `secrets` stands for keys, tokens and passwords of common forms.

    Raises:
        InputError: An expression is invalid.

    >>> redact_with(["secrets", "CUST-[0-9]+"])("CUST-17 has PASSWORD=hunter22")
    '[redacted] has PASSWORD=[redacted]'
    """
    compiled = [_compiled(pattern) for pattern in patterns]

    def redact(text: str) -> str:
        text = without_private(text)
        for pattern in compiled:
            text = pattern.sub(_replaced if pattern is _SECRETS else REDACTED, text)
        return text

    return redact


def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern == SECRETS:
        return _SECRETS
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"--redact {pattern!r:.80} is no regular expression: {error}") from error


def _replaced(match: re.Match[str]) -> str:
    """Return what stands for a secret: behind the name that it was given, if it was given one."""
    return f"{next(filter(None, match.groups()), '')}{REDACTED}"


def is_left_alone(folders: Iterable[str | Path], patterns: Sequence[str]) -> bool:
    """Return True if one of the folders, or a folder around it, is one that memory leaves alone.

    Args:
        folders: Where the agent works.
        patterns: Folders, with `~` and `*`; one without a slash is the name of a folder anywhere.

    >>> is_left_alone(["/srv/ann/clients/acme/src"], ["/srv/*/clients/acme"])
    True
    >>> is_left_alone(["/srv/ann/clients/acme/src"], ["diary"])
    False
    """
    for folder in map(Path, folders):
        real = folder.resolve()
        places = {folder, *folder.parents, real, *real.parents}
        if any(_matches(place, pattern) for place, pattern in product(places, patterns)):
            return True
    return False


def _matches(place: Path, pattern: str) -> bool:
    if "/" not in pattern and os.sep not in pattern and pattern != "~":
        return fnmatch(place.name, pattern)
    pattern = os.path.expanduser(pattern).rstrip("/" + os.sep) or os.sep
    return fnmatch(str(place), pattern) or fnmatch(str(place), os.path.realpath(pattern))
