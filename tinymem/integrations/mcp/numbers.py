"""Numbers of steps that are said with their namespace, as `user#12`, where several namespaces are read at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import quote

from tinymem.memory.context.recaller import block_of
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.recall.results import Recall

__all__ = ["memories_by_label", "namespace_label", "with_namespace"]

_UNFIT = re.compile(r"[^\w.@/+~-]")  # what would end a name on a line


def namespace_label(namespace: str) -> str:
    """Return what stands before the numbers of a namespace.

    >>> namespace_label("user"), namespace_label("my notes#2")
    ('user', 'my%20notes%232')
    """
    return _UNFIT.sub(lambda found: quote(found[0], safe=""), namespace)


def memories_by_label(memories: Iterable[HierarchicalMemory], namespace: str) -> dict[str, HierarchicalMemory]:
    """Return memories by what stands before their numbers: nothing where there is none but that of `namespace`.

    Of two of a namespace, the first counts.
    """
    found: dict[str, HierarchicalMemory] = {}
    for memory in memories:
        found.setdefault(namespace_label(memory.namespace), memory)
    return {"": found[label]} if [*found] == [label := namespace_label(namespace)] else found


def with_namespace(found: Recall, label: str, memory: HierarchicalMemory, budget: int) -> Recall:
    """Return a recall whose numbers stand behind a label, less the worst excerpts where that takes too many tokens."""
    count, items = memory.long_term.counter.count, [*found.items]
    while label and count(text := block_of(items, memory.long_term.key, label)) > budget:
        items.remove(min(items, key=lambda item: item.score))
    return replace(found, text=text, tokens=count(text), items=tuple(items)) if label else found
