"""tinymem: memory for long-running AI agents, inside an exact token budget.

    from tinymem import ActionStep, HierarchicalMemory, TaskStep

Names are imported when they are first used, so `import tinymem` costs milliseconds and loads no dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.actions import ActionStep, Signal, ToolCall
    from tinymem.adaptive import AdaptiveMemoryManager
    from tinymem.base import Part, Step
    from tinymem.context import Context, Item, Shares
    from tinymem.conversation import ConversationMemory, Message
    from tinymem.diagnosis import doctor, rebuild
    from tinymem.episodes import Episode
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
    from tinymem.execution import ExecutionResult, execution_result
    from tinymem.exporting import Exported, export_memory
    from tinymem.findings import Diagnosis, Finding
    from tinymem.folders import namespaces
    from tinymem.hierarchy import HierarchicalMemory
    from tinymem.importing import Imported, import_memory
    from tinymem.inspection import DebugReport, MemoryPicture, debug_memory, visualize_memory
    from tinymem.manager import MemoryManager
    from tinymem.memories import Memories
    from tinymem.messages import groups, messages_from_steps, problems, repair, steps_from_messages
    from tinymem.observations import prune_old_observations
    from tinymem.pruning import compose, keep_last_n_steps, keep_system_and_recent, no_pruning, token_budget
    from tinymem.recall import Excerpt, Explanation, LeftOut, Recall
    from tinymem.reindexing import Reindexed, reindex
    from tinymem.retention import Retention, RetentionReport, Retired
    from tinymem.salvaging import salvage
    from tinymem.scratchpad import AgentMemory
    from tinymem.semantic import semantic_pruning
    from tinymem.stats import Stats
    from tinymem.steps import (
        FinalAnswerStep,
        MessageStep,
        PlanningStep,
        ScratchpadStep,
        SummaryStep,
        SystemPromptStep,
        TaskStep,
    )
    from tinymem.strategy import PruneReport, PruneStrategy
    from tinymem.summaries.chat import ChatSummarizer
    from tinymem.summaries.extractive import ExtractiveSummarizer
    from tinymem.summaries.strategy import summarize_strategy
    from tinymem.tokens import TiktokenCounter, count_message, count_messages
    from tinymem.working import WorkingMemory

__version__ = "0.1.0"

__all__ = [
    "ActionStep",
    "AdaptiveMemoryManager",
    "AgentMemory",
    "BudgetError",
    "ChatSummarizer",
    "ClosedError",
    "Context",
    "ConversationMemory",
    "DebugReport",
    "Diagnosis",
    "EmbedderError",
    "EmbedderMismatchError",
    "Episode",
    "Excerpt",
    "ExecutionResult",
    "Explanation",
    "Exported",
    "ExtractiveSummarizer",
    "FinalAnswerStep",
    "Finding",
    "FormatError",
    "HierarchicalMemory",
    "Imported",
    "InputError",
    "Item",
    "LeftOut",
    "Memories",
    "MemoryManager",
    "MemoryPicture",
    "Message",
    "MessageError",
    "MessageStep",
    "MissingExtraError",
    "NotAMemoryError",
    "Part",
    "PlanningStep",
    "PruneReport",
    "PruneStrategy",
    "Recall",
    "Reindexed",
    "Retention",
    "RetentionReport",
    "Retired",
    "ScratchpadStep",
    "Shares",
    "Signal",
    "Stats",
    "Step",
    "StepError",
    "StorageError",
    "SummaryStep",
    "SystemPromptStep",
    "TaskStep",
    "TiktokenCounter",
    "TinymemError",
    "ToolCall",
    "WorkingMemory",
    "compose",
    "count_message",
    "count_messages",
    "debug_memory",
    "doctor",
    "execution_result",
    "export_memory",
    "groups",
    "import_memory",
    "keep_last_n_steps",
    "keep_system_and_recent",
    "messages_from_steps",
    "namespaces",
    "no_pruning",
    "problems",
    "prune_old_observations",
    "rebuild",
    "reindex",
    "repair",
    "salvage",
    "semantic_pruning",
    "steps_from_messages",
    "summarize_strategy",
    "token_budget",
    "visualize_memory",
]

# Where each name lives; a test holds it against the imports above and `__all__`.
_HOMES = {
    "tinymem.actions": "ActionStep Signal ToolCall",
    "tinymem.adaptive": "AdaptiveMemoryManager",
    "tinymem.base": "Part Step",
    "tinymem.context": "Context Item Shares",
    "tinymem.conversation": "ConversationMemory Message",
    "tinymem.diagnosis": "doctor rebuild",
    "tinymem.episodes": "Episode",
    "tinymem.errors": "BudgetError ClosedError EmbedderError EmbedderMismatchError FormatError InputError MessageError "
    "MissingExtraError NotAMemoryError StepError StorageError TinymemError",
    "tinymem.execution": "ExecutionResult execution_result",
    "tinymem.exporting": "Exported export_memory",
    "tinymem.findings": "Diagnosis Finding",
    "tinymem.folders": "namespaces",
    "tinymem.hierarchy": "HierarchicalMemory",
    "tinymem.importing": "Imported import_memory",
    "tinymem.inspection": "DebugReport MemoryPicture debug_memory visualize_memory",
    "tinymem.manager": "MemoryManager",
    "tinymem.memories": "Memories",
    "tinymem.messages": "groups messages_from_steps problems repair steps_from_messages",
    "tinymem.observations": "prune_old_observations",
    "tinymem.pruning": "compose keep_last_n_steps keep_system_and_recent no_pruning token_budget",
    "tinymem.recall": "Excerpt Explanation LeftOut Recall",
    "tinymem.reindexing": "Reindexed reindex",
    "tinymem.retention": "Retention RetentionReport Retired",
    "tinymem.salvaging": "salvage",
    "tinymem.scratchpad": "AgentMemory",
    "tinymem.semantic": "semantic_pruning",
    "tinymem.stats": "Stats",
    "tinymem.steps": "FinalAnswerStep MessageStep PlanningStep ScratchpadStep SummaryStep SystemPromptStep TaskStep",
    "tinymem.strategy": "PruneReport PruneStrategy",
    "tinymem.summaries.chat": "ChatSummarizer",
    "tinymem.summaries.extractive": "ExtractiveSummarizer",
    "tinymem.summaries.strategy": "summarize_strategy",
    "tinymem.tokens": "TiktokenCounter count_message count_messages",
    "tinymem.working": "WorkingMemory",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tinymem' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
