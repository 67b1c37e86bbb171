"""The memories that people open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinymem import lazy_names

if TYPE_CHECKING:
    from tinymem.memory.aio.hierarchy import AsyncHierarchicalMemory
    from tinymem.memory.aio.memories import AsyncMemories
    from tinymem.memory.context.context import Context, Item, Shares
    from tinymem.memory.conversation.conversation import ConversationManager, ConversationMemory, Message
    from tinymem.memory.hierarchy import HierarchicalMemory
    from tinymem.memory.inspection.report import MemoryReport, debug_memory, visualize_memory
    from tinymem.memory.memories import Memories
    from tinymem.memory.opening import MemoryOptions
    from tinymem.memory.scratchpad import AgentMemory
    from tinymem.memory.working.execution import ExecutionResult, execution_result
    from tinymem.memory.working.working import WorkingMemory
else:
    __getattr__, __dir__ = lazy_names(__name__, {
        "aio.hierarchy": "AsyncHierarchicalMemory",
        "aio.memories": "AsyncMemories",
        "context.context": "Context Item Shares",
        "conversation.conversation": "ConversationManager ConversationMemory Message",
        "hierarchy": "HierarchicalMemory",
        "inspection.report": "MemoryReport debug_memory visualize_memory",
        "memories": "Memories",
        "opening": "MemoryOptions",
        "scratchpad": "AgentMemory",
        "working.execution": "ExecutionResult execution_result",
        "working.working": "WorkingMemory",
    })  # fmt: skip

__all__ = [
    "AgentMemory", "AsyncHierarchicalMemory", "AsyncMemories", "Context", "ConversationManager", "ConversationMemory",
    "ExecutionResult", "HierarchicalMemory", "Item", "Memories", "MemoryOptions", "MemoryReport", "Message",
    "Shares", "WorkingMemory", "debug_memory", "execution_result", "visualize_memory",
]  # fmt: skip
