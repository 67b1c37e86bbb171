"""tinymem: memory for long-running AI agents, inside an exact token budget.

    from tinymem import ActionStep, HierarchicalMemory, TaskStep

Names are imported when they are first used, so `import tinymem` costs milliseconds and loads no dependency.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinymem.archive.episodes import Episode
    from tinymem.archive.folders import namespaces
    from tinymem.archive.stats import Stats
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
    from tinymem.memory.context import Context, Item, Shares
    from tinymem.memory.conversation.conversation import ConversationManager, ConversationMemory, Message
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.memory.inspection.report import DebugReport, MemoryPicture, debug_memory, draw_memory, visualize_memory
    from tinymem.memory.memories import Memories
    from tinymem.memory.scratchpad.scratchpad import AgentMemory
    from tinymem.memory.working.execution import ExecutionResult, execution_result
    from tinymem.memory.working.working import WorkingMemory
    from tinymem.messages.conversion import groups, messages_from_steps, steps_from_messages
    from tinymem.messages.tokens import TiktokenCounter, count_message, count_tokens
    from tinymem.messages.validity import problems, repair
    from tinymem.recall import Excerpt, Explanation, LeftOut, Recall
    from tinymem.steps.actions import ActionStep, Signal, ToolCall
    from tinymem.steps.ids import new_id
    from tinymem.steps.step import Part, Step
    from tinymem.steps.types import (
        FinalAnswerStep,
        MessageStep,
        PlanningStep,
        ScratchpadStep,
        SummaryStep,
        SystemPromptStep,
        TaskStep,
    )
    from tinymem.summarizers.chat import ChatSummarizer
    from tinymem.summarizers.extractive import ExtractiveSummarizer
    from tinymem.upkeep.diagnosis import doctor, rebuild
    from tinymem.upkeep.exporting import Exported, export_memory
    from tinymem.upkeep.findings import Diagnosis, Finding
    from tinymem.upkeep.importing import Imported, import_memory
    from tinymem.upkeep.reindexing import Reindexed, reindex
    from tinymem.upkeep.rescue import salvage
    from tinymem.upkeep.retention import Retention, RetentionReport, Retired
    from tinymem.window.adaptive import AdaptiveMemoryManager
    from tinymem.window.manager import MemoryManager
    from tinymem.window.observations import prune_old_observations
    from tinymem.window.semantic import semantic_pruning
    from tinymem.window.strategies import compose, keep_last_n_steps, keep_system_and_recent, no_pruning, token_budget
    from tinymem.window.strategy import PruneReport, PruneStrategy
    from tinymem.window.summarize import summarize_strategy

__version__ = "0.1.0"

__all__ = [
    "ActionStep",
    "AdaptiveMemoryManager",
    "AgentMemory",
    "BudgetError",
    "ChatSummarizer",
    "ClosedError",
    "Context",
    "ConversationManager",
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
    "count_tokens",
    "debug_memory",
    "doctor",
    "draw_memory",
    "execution_result",
    "export_memory",
    "groups",
    "import_memory",
    "keep_last_n_steps",
    "keep_system_and_recent",
    "messages_from_steps",
    "namespaces",
    "new_id",
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
    "tinymem.steps.actions": "ActionStep Signal ToolCall",
    "tinymem.window.adaptive": "AdaptiveMemoryManager",
    "tinymem.steps.step": "Part Step",
    "tinymem.memory.context": "Context Item Shares",
    "tinymem.memory.conversation.conversation": "ConversationManager ConversationMemory Message",
    "tinymem.upkeep.diagnosis": "doctor rebuild",
    "tinymem.archive.episodes": "Episode",
    "tinymem.errors": "BudgetError ClosedError EmbedderError EmbedderMismatchError FormatError InputError MessageError "
    "MissingExtraError NotAMemoryError StepError StorageError TinymemError",
    "tinymem.memory.working.execution": "ExecutionResult execution_result",
    "tinymem.upkeep.exporting": "Exported export_memory",
    "tinymem.upkeep.findings": "Diagnosis Finding",
    "tinymem.archive.folders": "namespaces",
    "tinymem.memory.hierarchy": "HierarchicalMemory",
    "tinymem.steps.ids": "new_id",
    "tinymem.upkeep.importing": "Imported import_memory",
    "tinymem.memory.inspection.report": "DebugReport MemoryPicture debug_memory draw_memory visualize_memory",
    "tinymem.window.manager": "MemoryManager",
    "tinymem.memory.memories": "Memories",
    "tinymem.messages.conversion": "groups messages_from_steps steps_from_messages",
    "tinymem.window.observations": "prune_old_observations",
    "tinymem.window.strategies": "compose keep_last_n_steps keep_system_and_recent no_pruning token_budget",
    "tinymem.recall": "Excerpt Explanation LeftOut Recall",
    "tinymem.upkeep.reindexing": "Reindexed reindex",
    "tinymem.messages.validity": "problems repair",
    "tinymem.upkeep.retention": "Retention RetentionReport Retired",
    "tinymem.upkeep.rescue": "salvage",
    "tinymem.memory.scratchpad.scratchpad": "AgentMemory",
    "tinymem.window.semantic": "semantic_pruning",
    "tinymem.archive.stats": "Stats",
    "tinymem.steps.types": "FinalAnswerStep MessageStep PlanningStep ScratchpadStep "
    "SummaryStep SystemPromptStep TaskStep",
    "tinymem.window.strategy": "PruneReport PruneStrategy",
    "tinymem.summarizers.chat": "ChatSummarizer",
    "tinymem.summarizers.extractive": "ExtractiveSummarizer",
    "tinymem.window.summarize": "summarize_strategy",
    "tinymem.messages.tokens": "TiktokenCounter count_message count_tokens",
    "tinymem.memory.working.working": "WorkingMemory",
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
