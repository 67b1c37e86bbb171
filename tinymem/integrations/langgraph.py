"""LangGraph: a store for graphs, kept in a memory and searched by it.

    from tinymem.integrations.langgraph import TinymemStore

    graph = builder.compile(store=TinymemStore(memory))
    store.put(("users", "ann"), "food", {"likes": "pasta"})
    store.search(("users",), query="What does Ann eat?")

Each item is a step of the memory, so it is durable when `put` returns, found by `recall` too, and gone from every file
when it is deleted or put again. Items of a namespace are a session: `store/users/ann/`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter, ge, gt, le, lt
from typing import Any
from urllib.parse import quote

from tinymem.errors import InputError, MissingExtraError
from tinymem.integrations.native import AnyMemory, rank_excerpts, run_on, to_sync
from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.recall.results import Excerpt
from tinymem.steps.ids import utc_now
from tinymem.steps.step import Step
from tinymem.steps.types import MessageStep
from tinymem.stores.filter import Beginning

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
    from langgraph.store.base.embed import get_text_at_path, tokenize_path
    from langgraph.store.memory import InMemoryStore
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.langgraph", "langgraph") from error

__all__ = ["TinymemStore"]

ROOT = "store/"  # of the sessions
MARK = "langgraph"  # in the metadata of a step: its item
TOKENS, MOST_TOKENS = 100, 1_000_000  # for each item that is searched for, and of a search

Namespace = tuple[str, ...]


class TinymemStore(BaseStore):
    """A store of LangGraph over a memory.

    Reads of a batch come before its writes. Items stay until they are deleted: times to live are not kept.

    Args:
        memory: The memory.
        fields: The fields of a value that are searched, as `["title", "notes[*].text"]`; all of it unless given.
    """

    def __init__(self, memory: AnyMemory, *, fields: Sequence[str] | None = None) -> None:
        super().__init__()
        self.memory, self.fields = memory, fields

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations."""
        return _batch(to_sync(self.memory), list(ops), self.fields)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, while the event loop goes on."""
        return await run_on(self.memory, _batch, list(ops), self.fields)


def _batch(memory: HierarchicalMemory, ops: Sequence[Op], fields: Sequence[str] | None) -> list[Result]:
    for op in ops:
        validate_op_namespace(op)
    results = [None if isinstance(op, PutOp) else READS[type(op)](memory, op) for op in ops]
    puts = {_id(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
    steps = [_step(memory, id, op, fields) for id, op in puts.items() if op.value is not None]
    memory.archive(steps, on_conflict="replace")
    gone = memory.long_term.journal.numbers([id for id, op in puts.items() if op.value is None])
    if gone:
        memory.forget([*gone])
    return results


# -- in ---------------------------------------------------------------------------------------------------------------


def _id(namespace: Namespace, key: str) -> str:
    return hashlib.sha256(json.dumps([MARK, namespace, key]).encode()).hexdigest()[:22]


def _session(namespace: Namespace) -> str:
    return ROOT + "".join(f"{quote(label, safe='')}/" for label in namespace)


def _step(memory: HierarchicalMemory, id: str, op: PutOp, fields: Sequence[str] | None) -> Step:
    before, now = _find(memory, id), utc_now()
    created = (before.created_at if before else now).isoformat()
    times = {"updated": now.isoformat(), "created": created}
    about = {"namespace": list(op.namespace), "key": op.key, "value": op.value, **times}
    text = "" if op.index is False else _text(op.value or {}, op.index or fields)
    return MessageStep("user", text, id=id, session=_session(op.namespace), metadata={MARK: about})


def _text(value: Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """Return the text of a value that is searched."""
    if fields is None or list(fields) == ["$"]:
        lines: Iterable[str] = (
            f"{key}: {field if isinstance(field, str) else json.dumps(field)}" for key, field in value.items()
        )
    else:
        lines = chain.from_iterable(get_text_at_path(dict(value), tokenize_path(field)) for field in fields)
    return "\n".join(lines)


# -- out --------------------------------------------------------------------------------------------------------------


def _item(step: Step, score: float | None = None) -> SearchItem | None:
    """Return the item of a step; None for a step that is none of a store."""
    if MARK not in step.metadata:
        return None
    about = step.to_dict()["metadata"][MARK]
    created, updated = map(datetime.fromisoformat, (about["created"], about["updated"]))
    return SearchItem(tuple(about["namespace"]), about["key"], about["value"], created, updated, score)


def _find(memory: HierarchicalMemory, id: str) -> Item | None:
    """Return the item with this id; None where there is none."""
    try:
        return _item(memory.get(id))
    except InputError:
        return None


def _items_in(memory: HierarchicalMemory, prefix: Namespace) -> Iterator[SearchItem]:
    return filter(None, map(_item, memory.history(Beginning(_session(prefix)), newest=True)))


def _search(memory: HierarchicalMemory, op: SearchOp) -> list[SearchItem]:
    _check_filter(op.filter)
    end = op.offset + op.limit
    if op.query:
        return _ranked(memory, op, end)[op.offset : end]
    fitting = [item for item in _items_in(memory, op.namespace_prefix) if _fits(item, op)]
    return sorted(fitting, key=attrgetter("updated_at"), reverse=True)[op.offset : end]


def _ranked(memory: HierarchicalMemory, op: SearchOp, count: int) -> list[SearchItem]:
    """Return the `count` items that bear most on the query, the best first, or all if there are fewer."""
    session = Beginning(_session(op.namespace_prefix))
    tokens, seen = max(TOKENS * count, 1_000), -1
    while True:
        recalled = memory.recall(op.query or "", tokens, session=session, diversity=0, min_relevance=0)
        best: dict[str, Excerpt] = {}
        for excerpt in rank_excerpts(recalled):
            best.setdefault(excerpt.step.id, excerpt)
        items = filter(None, [_item(excerpt.step, excerpt.relevance) for excerpt in best.values()])
        found = [item for item in items if _fits(item, op)]
        if len(found) >= count or len(best) == seen or tokens >= MOST_TOKENS:
            return sorted(found, key=lambda item: -(item.score or 0))
        tokens, seen = tokens * 4, len(best)


def _list_namespaces(memory: HierarchicalMemory, op: ListNamespacesOp) -> list[Namespace]:
    known = InMemoryStore()  # LangGraph's own, which says what the conditions mean
    known.batch([PutOp(item.namespace, "known", {}) for item in _items_in(memory, ())])
    found: list[Namespace] = known.batch([op])[0]
    return found


READS: dict[type, Callable[[HierarchicalMemory, Any], Result]] = {
    GetOp: lambda memory, op: _find(memory, _id(op.namespace, op.key)),
    SearchOp: _search,
    ListNamespacesOp: _list_namespaces,
}


# -- filters ----------------------------------------------------------------------------------------------------------


def _fits(item: SearchItem, op: SearchOp) -> bool:
    return all(_passes(_field(item.value, path), wanted) for path, wanted in (op.filter or {}).items())


def _check_filter(wanted: Any) -> None:
    """Raise ValueError for an operator or a key that there is not, also where there is nothing to compare.

    LangGraph's stores in databases refuse a key with a quotation mark too.
    """
    for key, inner in wanted.items() if isinstance(wanted, Mapping) else ():
        if key.startswith("$") and key not in OPERATORS:
            raise ValueError(f"there is no operator {key}: use {', '.join(OPERATORS)}")
        if "'" in key or '"' in key:
            raise ValueError("Invalid filter key: no name of a field has a quotation mark in it")
        _check_filter(inner)


def _field(value: Any, path: str) -> Any:
    """Return the value of a field, which may be inside of others: `user.name`."""
    if not isinstance(value, Mapping):
        return None
    first, dot, rest = path.partition(".")
    return _field(value.get(first), rest) if dot and path not in value else value.get(path)


def _passes(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    if any(key.startswith("$") for key in wanted):
        return all(_compares(value, operator, other) for operator, other in wanted.items())
    return isinstance(value, Mapping) and all(_passes(value.get(key), inner) for key, inner in wanted.items())


def _compares(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _passes(value, other) == (operator == "$eq")
    try:
        return _ORDER[operator](float(value), float(other))
    except (TypeError, ValueError):
        return isinstance(value, str) and isinstance(other, str) and _ORDER[operator](value, other)


_ORDER: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
OPERATORS = ("$eq", "$ne", *_ORDER)
