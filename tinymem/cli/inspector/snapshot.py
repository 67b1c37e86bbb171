"""The snapshot of a memory that a page without a server shows: its newest steps, and answers made in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinymem.cli.inspector.view import View
from tinymem.errors import BudgetError

__all__ = ["BUDGETS", "snapshot"]

BUDGETS = (256, 512, 1_024, 2_048, 4_096, 8_192)  # tokens for which answers are made
EPISODES = 500  # the newest


def snapshot(view: View, steps: int, questions: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the page asks a server for, as far as a file should hold it.

    Args:
        view: The view of an open memory.
        steps: How many of the newest steps it holds.
        questions: Questions that the playground answers; the current task unless given.
    """
    overview = view.overview()
    asked = overview["questions"] = [*(questions or overview["questions"])]
    first = max(0, overview["steps"] - steps)
    recalls = {}
    for question in asked:
        recalls[question] = [view.recall(question, budget) for budget in BUDGETS]
    return {
        "overview": overview,
        "steps": [*view.whole(view.numbers()[first:])],
        "episodes": view.episodes(0, EPISODES)["episodes"],
        "budgets": BUDGETS,
        "recalls": recalls,
        "contexts": [_context(view, budget) for budget in BUDGETS],
    }


def _context(view: View, budget: int) -> dict[str, Any]:
    try:
        return view.context(None, budget)
    except BudgetError as error:
        return {"budget": budget, "error": str(error)}
