"""Sources as syntax trees."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def syntax_tree(path: Path) -> ast.Module:
    """Parse a file while no garbage is collected.

    A task that is collected may log a traceback, for which Python 3.11 parses lines itself, and one `ast.parse` inside
    another fails (python/cpython#106905).
    """
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        gc.enable()
