"""tinymem: memory for long-running AI agents, inside an exact token budget.

    from tinymem import ActionStep, HierarchicalMemory, TaskStep

Names are imported when they are first used, so `import tinymem` costs milliseconds and loads no dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.actions import ActionStep, Signal, ToolCall
    from tinymem.base import Part, Step
    from tinymem.context import Context
    from tinymem.errors import (
        BudgetError,
        ClosedError,
        EmbedderError,
        EmbedderMismatchError,
        FormatError,
        InputError,
        MessageError,
        MissingExtraError,
        NotAMemoryError,
        StepError,
        StorageError,
        TinymemError,
    )
    from tinymem.hierarchy import HierarchicalMemory
    from tinymem.manager import MemoryManager
    from tinymem.messages import groups, messages_from_steps, problems, repair, steps_from_messages
    from tinymem.pruning import (
        PruneStrategy,
        keep_last_n_steps,
        no_pruning,
        prune_old_observations,
        token_budget,
    )
    from tinymem.recall import Excerpt, Recall
    from tinymem.steps import (
        FinalAnswerStep,
        MessageStep,
        PlanningStep,
        ScratchpadStep,
        SummaryStep,
        SystemPromptStep,
        TaskStep,
    )
    from tinymem.tokens import TiktokenCounter, count_message, count_messages

__version__ = "0.1.0"

_HOME = {
    "actions": "ActionStep Signal ToolCall",
    "base": "Part Step",
    "context": "Context",
    "errors": "BudgetError ClosedError EmbedderError EmbedderMismatchError FormatError InputError MessageError "
    "MissingExtraError NotAMemoryError StepError StorageError TinymemError",
    "hierarchy": "HierarchicalMemory",
    "manager": "MemoryManager",
    "messages": "groups messages_from_steps problems repair steps_from_messages",
    "pruning": "PruneStrategy keep_last_n_steps no_pruning prune_old_observations token_budget",
    "recall": "Excerpt Recall",
    "steps": "FinalAnswerStep MessageStep PlanningStep ScratchpadStep SummaryStep SystemPromptStep TaskStep",
    "tokens": "TiktokenCounter count_message count_messages",
}
_MODULES = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = sorted([*_MODULES, "__version__"])  # the table above is the one list


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tinymem' has no attribute {name!r}")
    value = getattr(import_module(f"tinymem.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
