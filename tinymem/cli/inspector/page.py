"""The page as one file: markup, style and program together, so that nothing has to be fetched.

Its Content-Security-Policy lets only this style and this program in, known by their hashes, and no text can become
markup (Trusted Types). The data of a memory that is written to a file stands in it as JSON that cannot end its element.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from tinymem.cli.shared import plain

__all__ = ["page", "policy", "to_json"]

# JSON has these characters only inside strings, where an escape means the same.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def page(data: Any = None) -> str:
    """Return the page; with `data` (see `tinymem.cli.inspector.snapshot`) it needs no server."""
    filled = {"style": _asset("app.css"), "program": _asset("app.js")}
    filled["policy"] = "" if data is None else f'<meta http-equiv="Content-Security-Policy" content="{policy("none")}">'
    filled["data"] = to_json(data).translate(_ESCAPES)
    html = _asset("index.html")
    for name, text in filled.items():  # the data come last: what stands in them is no mark
        html = html.replace(f"{{{{{name}}}}}", text, 1)
    return html


@cache
def policy(connect: str) -> str:
    """Return the Content-Security-Policy of the page, which may `connect` to `"self"` or `"none"`."""
    return (
        f"default-src 'none'; script-src {_hash('app.js')}; style-src {_hash('app.css')}; connect-src '{connect}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def to_json(value: Any) -> str:
    """Return a value as JSON; times as ISO 8601, and NaN and Infinity as text, which browsers refuse as numbers."""
    text = json.dumps(value, default=plain, separators=(",", ":"))
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=str), separators=(",", ":"))
    return text


@cache
def _asset(name: str) -> str:
    return (resources.files("tinymem.cli.inspector") / "page" / name).read_text("utf-8")


def _hash(name: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()}'"
