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
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any, NamedTuple
from urllib.parse import quote

from tinymem.errors import ClosedError, InputError, MissingExtraError, TinymemError
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
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        validate_op_namespace,
    )
    from langgraph.store.base.embed import get_text_at_path, tokenize_path
except ImportError as error:
    raise MissingExtraError("tinymem.integrations.langgraph", "langgraph") from error

__all__ = ["TinymemStore"]

ROOT = "store/"  # of the sessions
MARK = "langgraph"  # in the metadata of a step: its item
SWEPT_EVERY = 5  # minutes, unless the configuration says otherwise, as in LangGraph's own stores
TOKENS, MOST_TOKENS = 100, 1_000_000  # for each item that is searched for, and of a search

logger = logging.getLogger(__name__)

Namespace = tuple[str, ...]


class TinymemStore(BaseStore):
    """A store of LangGraph over a memory.

    Reads of a batch come before its writes. Items whose time is over are not returned, and `sweep_ttl` removes them, so
    that `memory.recall` does not find them either. With `sweep_interval_minutes` that happens in the background, from
    the first operation on, until `stop_ttl_sweeper` is called or the memory is closed.

    Args:
        memory: The memory.
        ttl: `default_ttl` in minutes, `refresh_on_read` and `sweep_interval_minutes`; items stay unless given, or put
            with a `ttl`.
        fields: The fields of a value that are searched, as `["title", "notes[*].text"]`; all of it unless given.
    """

    supports_ttl = True

    def __init__(self, memory: AnyMemory, ttl: TTLConfig | None = None, *, fields: Sequence[str] | None = None) -> None:
        super().__init__()
        self.memory, self.ttl_config, self.fields = memory, ttl, fields
        self._sweeper: threading.Thread | None = None
        self._stopping = threading.Event()
        self._sweeps_itself = bool(ttl and ttl.get("sweep_interval_minutes"))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations."""
        self._begin_to_sweep()
        return _batch(to_sync(self.memory), list(ops), self.fields)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations, while the event loop goes on."""
        self._begin_to_sweep()
        return await run_on(self.memory, _batch, list(ops), self.fields)

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over, and return how many there were."""
        return _sweep_over(to_sync(self.memory))

    async def asweep_ttl(self) -> int:
        """Remove the items whose time is over, while the event loop goes on."""
        return await run_on(self.memory, _sweep_over)

    def start_ttl_sweeper(self, sweep_interval_minutes: int | None = None) -> Future[None]:
        """Sweep in the background, every so many minutes (`sweep_interval_minutes` of the configuration, or 5).

        Returns:
            A future that is done when the sweeping ends; cancelling it ends it. Without a configuration of `ttl` it is
            done already.
        """
        future: Future[None] = Future()
        future.add_done_callback(lambda done: self._stopping.set() if done.cancelled() else None)
        if not self.ttl_config:
            future.set_result(None)
        elif self._sweeper is None or not self._sweeper.is_alive():
            minutes = float(sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or SWEPT_EVERY)
            self._stopping.clear()
            self._sweeper = threading.Thread(target=self._sweep, args=(60 * minutes, future), daemon=True)
            self._sweeper.start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeping; True unless it has not ended after `timeout` seconds."""
        self._stopping.set()
        self._sweeps_itself = False
        if self._sweeper is not None:
            self._sweeper.join(timeout)
        return self._sweeper is None or not self._sweeper.is_alive()

    def _begin_to_sweep(self) -> None:
        if self._sweeps_itself:
            self._sweeps_itself = False
            self.start_ttl_sweeper()

    def _sweep(self, seconds: float, future: Future[None]) -> None:
        while not self._stopping.wait(seconds):
            try:
                _sweep_over(to_sync(self.memory))
            except ClosedError:
                break
            except TinymemError as error:
                logger.warning("items whose time is over stay until the next sweep: %s", error)
        if not future.done():
            future.set_result(None)


def _batch(memory: HierarchicalMemory, ops: Sequence[Op], fields: Sequence[str] | None) -> list[Result]:
    for op in ops:
        validate_op_namespace(op)
    reads: dict[type, Callable[[HierarchicalMemory, Any], Result]]
    reads = {GetOp: _get, SearchOp: _search, ListNamespacesOp: _list_namespaces, PutOp: lambda memory, op: None}
    results = [reads[type(op)](memory, op) for op in ops]
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
    created = before.step.metadata[MARK]["created"] if before else now.isoformat()
    about = {"namespace": list(op.namespace), "key": op.key, "value": op.value}
    about |= {"updated": now.isoformat(), "created": created}
    if op.ttl is not None:
        about |= {"ttl": op.ttl, "until": _end_of(op.ttl)}
    text = "" if op.index is False else _text(op.value or {}, op.index or fields)
    return MessageStep("user", text, id=id, session=_session(op.namespace), metadata={MARK: about})


def _end_of(ttl: float) -> float:
    return (utc_now() + timedelta(minutes=ttl)).timestamp()


def _text(value: Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """Return the text of a value that is searched."""
    if fields is None or list(fields) == ["$"]:
        shown = {key: field if isinstance(field, str) else json.dumps(field) for key, field in value.items()}
        return "\n".join(f"{key}: {text}" for key, text in shown.items())
    paths = map(tokenize_path, fields)
    return "\n".join("\n".join(get_text_at_path(dict(value), path)) for path in paths)


def _sweep_over(memory: HierarchicalMemory) -> int:
    """Forget the items whose time is over."""
    over = [stored.step.id for stored in _stored_in(memory, ()) if stored.is_over]
    return memory.forget(over) if over else 0


# -- out --------------------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    """An item, and the step that it is kept in."""

    item: SearchItem
    step: Step

    @property
    def is_over(self) -> bool:
        until = self.step.metadata[MARK].get("until")
        return until is not None and until <= utc_now().timestamp()


def _stored(step: Step, score: float | None = None) -> _Stored | None:
    """Return the item of a step; None for a step that is none of a store."""
    if MARK not in step.metadata:
        return None
    about = step.to_dict()["metadata"][MARK]
    created, updated = map(datetime.fromisoformat, (about["created"], about["updated"]))
    return _Stored(SearchItem(tuple(about["namespace"]), about["key"], about["value"], created, updated, score), step)


def _find(memory: HierarchicalMemory, id: str) -> _Stored | None:
    """Return the item with this id; None where there is none, or its time is over."""
    try:
        stored = _stored(memory.get(id))
    except InputError:
        return None
    return None if stored is None or stored.is_over else stored


def _stored_in(memory: HierarchicalMemory, prefix: Namespace) -> Iterator[_Stored]:
    return filter(None, map(_stored, memory.history(Beginning(_session(prefix)), newest=True)))


def _get(memory: HierarchicalMemory, op: GetOp) -> Item | None:
    stored = _find(memory, _id(op.namespace, op.key))
    if stored is None:
        return None
    _refresh(memory, [stored] if op.refresh_ttl else ())
    return stored.item


def _search(memory: HierarchicalMemory, op: SearchOp) -> list[SearchItem]:
    _check_filter(op.filter)
    end = op.offset + op.limit
    if op.query:
        found = _ranked(memory, op, end)
    else:
        fitting = [stored for stored in _stored_in(memory, op.namespace_prefix) if _fits(stored, op)]
        found = sorted(fitting, key=lambda stored: stored.item.updated_at, reverse=True)
    page = found[op.offset : end]
    _refresh(memory, page if op.refresh_ttl else ())
    return [stored.item for stored in page]


def _ranked(memory: HierarchicalMemory, op: SearchOp, count: int) -> list[_Stored]:
    """Return the `count` items that bear most on the query, the best first, or all if there are fewer."""
    session = Beginning(_session(op.namespace_prefix))
    tokens, seen = max(TOKENS * count, 1_000), -1
    while True:
        recalled = memory.recall(op.query or "", tokens, session=session, diversity=0, min_relevance=0)
        best: dict[str, Excerpt] = {}
        for excerpt in rank_excerpts(recalled):
            best.setdefault(excerpt.step.id, excerpt)
        stored = filter(None, [_stored(excerpt.step, excerpt.relevance) for excerpt in best.values()])
        found = [item for item in stored if _fits(item, op)]
        if len(found) >= count or len(best) == seen or tokens >= MOST_TOKENS:
            return sorted(found, key=lambda stored: -(stored.item.score or 0))
        tokens, seen = tokens * 4, len(best)


def _refresh(memory: HierarchicalMemory, items: Iterable[_Stored]) -> None:
    """Let the time of items begin again, of those that have one."""
    steps = []
    for _, step in items:
        metadata = step.to_dict()["metadata"]
        if "ttl" in metadata[MARK]:
            metadata[MARK]["until"] = _end_of(metadata[MARK]["ttl"])
            steps.append(step.evolve(metadata=metadata, step_number=None))
    memory.archive(steps, on_conflict="replace")


def _list_namespaces(memory: HierarchicalMemory, op: ListNamespacesOp) -> list[Namespace]:
    found = {stored.item.namespace for stored in _stored_in(memory, ()) if not stored.is_over}
    for condition in op.match_conditions or ():
        found = {name for name in found if _matches(name, condition)}
    return sorted({name[: op.max_depth] for name in found})[op.offset : op.offset + op.limit]


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    wanted = condition.path
    part = namespace[: len(wanted)] if condition.match_type == "prefix" else namespace[-len(wanted) :]
    return len(part) == len(wanted) and all(map(_is_label, wanted, part))


def _is_label(wanted: str, label: str) -> bool:
    return wanted in ("*", label)


# -- filters ----------------------------------------------------------------------------------------------------------


def _fits(stored: _Stored, op: SearchOp) -> bool:
    wanted = (op.filter or {}).items()
    return not stored.is_over and all(_passes(_field(stored.item.value, path), value) for path, value in wanted)


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
