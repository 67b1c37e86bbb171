"""tinymem: memory for long-running AI agents, inside an exact token budget.

    from tinymem import ActionStep, HierarchicalMemory, TaskStep

The packages have more public names: `tinymem.errors`, `tinymem.upkeep`, `tinymem.messages`, and so on. A name is
imported when it is first used, so `import tinymem` costs milliseconds and loads no dependency.
"""

from __future__ import annotations

from importlib import import_module
from sys import modules

__version__ = "0.1.0"

TYPE_CHECKING = False  # as type checkers know it: a hook has not the time to load `typing`


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """Return the `__getattr__` and `__dir__` of a package whose public names are imported when they are first used.

    Args:
        package: The package's name.
        homes: Module, relative to the package -> the names that it defines, separated by spaces.
    """
    found: dict[str, str] = {}
    for module, names in homes.items():
        found.update(dict.fromkeys(names.split(), f"{package}.{module}"))

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(found[name]), name)
        setattr(modules[package], name, value)  # from now on without this detour
        return value

    return get, found.keys


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from tinymem.archive import Callbacks
    from tinymem.errors import TinymemError
    from tinymem.memory import (
        AgentMemory,
        AsyncHierarchicalMemory,
        AsyncMemories,
        Context,
        ConversationManager,
        ConversationMemory,
        ExecutionResult,
        HierarchicalMemory,
        Memories,
        Message,
        WorkingMemory,
        debug_memory,
        visualize_memory,
    )
    from tinymem.messages import count_tokens
    from tinymem.recall import Recall
    from tinymem.runs import replay
    from tinymem.steps import (
        ActionStep,
        FinalAnswerStep,
        MessageStep,
        PlanningStep,
        ScratchpadStep,
        Signal,
        Step,
        SummaryStep,
        SystemPromptStep,
        TaskStep,
        ToolCall,
    )
    from tinymem.upkeep import Retention
    from tinymem.window import (
        AdaptiveMemoryManager,
        MemoryManager,
        PruneStrategy,
        compose,
        keep_last_n_steps,
        keep_system_and_recent,
        no_pruning,
        prune_old_observations,
        semantic_pruning,
        summarize_strategy,
        token_budget,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "archive": "Callbacks",
        "errors": "TinymemError",
        "memory": "AgentMemory AsyncHierarchicalMemory AsyncMemories Context ConversationManager ConversationMemory "
        "ExecutionResult HierarchicalMemory Memories Message WorkingMemory debug_memory visualize_memory",
        "messages": "count_tokens",
        "recall": "Recall",
        "runs": "replay",
        "steps": "ActionStep FinalAnswerStep MessageStep PlanningStep ScratchpadStep Signal Step SummaryStep "
        "SystemPromptStep TaskStep ToolCall",
        "upkeep": "Retention",
        "window": "AdaptiveMemoryManager MemoryManager PruneStrategy compose keep_last_n_steps "
        "keep_system_and_recent no_pruning prune_old_observations semantic_pruning summarize_strategy "
        "token_budget",
    })  # fmt: skip

__all__ = [
    "ActionStep", "AdaptiveMemoryManager", "AgentMemory", "AsyncHierarchicalMemory", "AsyncMemories", "Callbacks",
    "Context", "ConversationManager", "ConversationMemory", "ExecutionResult", "FinalAnswerStep",
    "HierarchicalMemory", "Memories",
    "MemoryManager", "Message", "MessageStep", "PlanningStep", "PruneStrategy", "Recall", "Retention",
    "ScratchpadStep", "Signal", "Step", "SummaryStep", "SystemPromptStep", "TaskStep", "TinymemError", "ToolCall",
    "WorkingMemory", "compose", "count_tokens", "debug_memory", "keep_last_n_steps", "keep_system_and_recent",
    "no_pruning", "prune_old_observations", "replay", "semantic_pruning", "summarize_strategy", "token_budget",
    "visualize_memory",
]  # fmt: skip
