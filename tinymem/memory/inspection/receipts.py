"""Receipts: the blocks that were recalled, and whether the agent then used them.

A block was used when the agent's next words, in a call or an answer, have an identifier of it (a path, a name with
digits, a long number) that nobody else had said in the steps before: it can only have come from the block. Words of a
language tell nothing, so what was used in other words is not counted: the share is a lower bound.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinymem.errors import StorageError
from tinymem.memory.tracing import add_event
from tinymem.protocols.settings import RECEIPTS
from tinymem.recall.query.identifiers import identifiers
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.archive.archive import Archive
    from tinymem.archive.callbacks import Callbacks
    from tinymem.recall.results import Excerpt, Recall

__all__ = ["Receipt", "ReceiptItem", "Receipts", "Totals"]

Place: TypeAlias = tuple[str, int]  # of an excerpt: the id of its receipt, and which one it is there
Names: TypeAlias = frozenset[str]

KEPT = 16  # receipts that are kept,
PENDING = 4  # and the newest of them, which are looked at when the agent says something
AT_ONCE = 16  # that are written at once, behind an add: as many may be lost with a killed process,
RARELY = 128  # and that a memory which is only asked holds: to write, it may have to wait for others who write
MOST = 1_000  # that wait for a journal that cannot be written
LOOKED_AT = 4_000  # characters of what the agent says at once
FIGURES = 7  # of an item that are written; what it corrects is asked for
BEFORE = 8  # steps before of the same session, in which nobody else may have said it
OWN = frozenset(  # parts that are the agent's words
    {"thought", "announcement", "call", "code", "signal", "planning", "reply", "final_answer"}
)


class ReceiptItem(NamedTuple):
    """An excerpt that was recalled.

    Attributes:
        number: The number of its step.
        part: The place of its part in `step.parts()`.
        start: The place of its first character in the part.
        end: The place behind its last character.
        rank: Its place by score, 1 for the best.
        tokens: Its tokens in the block.
        used: True if the agent used it.
        corrects: The numbers of the steps that its step corrects.
    """

    number: int
    part: int
    start: int
    end: int
    rank: int
    tokens: int
    used: bool = False
    corrects: tuple[int, ...] = ()


@dataclass(frozen=True)
class Receipt:
    """A block that was recalled: into a prompt, or as the answer to a question.

    Attributes:
        time: When it was recalled.
        tokens: Its tokens.
        items: Its excerpts, in the order in which they stand in it.
        session: A keyed hash of the session that may use it, so that its name can be forgotten; "" for any.
        id: Its own name.
    """

    time: datetime
    tokens: int
    items: tuple[ReceiptItem, ...]
    session: str = field(default="", repr=False)
    id: str = field(default_factory=lambda: secrets.token_hex(4), repr=False)

    @property
    def used(self) -> bool:
        """True if the agent used one of the excerpts."""
        return any(item.used for item in self.items)


@dataclass(frozen=True)
class Totals:
    """The sums over all blocks: how many were recalled, how many of them were used, and their tokens."""

    recalls: int = 0
    recalls_used: int = 0
    recalled_tokens: int = 0

    def __str__(self) -> str:
        share = f", {self.recalls_used / self.recalls:.0%} used" if self.recalls else ""
        return f"recalled {pluralize(self.recalls, 'time')}{share}, {pluralize(self.recalled_tokens, 'token')}"


class Receipts:
    """The receipts of a memory. Any number of threads and processes may write and read them.

    Args:
        archive: The memory's archive.
        callbacks: The callbacks of the memory's user.

    Attributes:
        callbacks: The same, which tell the receipts what was added too.
        is_on: Set it to False where people look at a memory, and no agent.

    >>> from tinymem import HierarchicalMemory
    >>> with HierarchicalMemory() as memory:
    ...     step = memory.add_message("user", "The parcel has the number PK-70812.", session="monday")
    ...     found = memory.recall("Which number has the parcel?")
    ...     step = memory.add_message("assistant", "It is PK-70812.")
    ...     print(memory.receipts.totals())
    recalled 1 time, 100% used, 46 tokens
    """

    def __init__(self, archive: Archive, callbacks: Callbacks) -> None:
        self._archive = archive
        self.callbacks = replace(callbacks, watch=self._watch)
        self.is_on = True
        self._lock = threading.Lock()  # never held while the journal is asked
        self._new: tuple[Receipt, ...] = ()  # not written yet, the newest last
        self._used: frozenset[Place] = frozenset()  # used, and not written yet
        self._read: tuple[str | None, list[Receipt]] = None, []
        self._texts: dict[str, tuple[str, list[str]]] = {}  # the question and the excerpts, by the receipt's id

    def note(
        self,
        recall: Recall,
        when: datetime,
        query: str | None = None,
        session: str | None = None,
        corrections: Sequence[Excerpt] = (),
    ) -> None:
        """Note a block that was recalled, and tell the callbacks.

        Args:
            recall: The block.
            when: When it was recalled.
            query: The question: what it names is nothing that the agent has from the block.
            session: The session that may use it; any unless given.
            corrections: What came into the window of the prompt behind the steps that it corrects.
        """
        if self.is_on and (recall.items or corrections):
            receipt = _receipt(recall, when, self._hash(session), corrections)
            best = sorted(receipt.items, key=lambda item: item.rank)
            about = {"steps": [item.number for item in best], "tokens": [item.tokens for item in best]}
            add_event("tinymem.recalled", {f"tinymem.{name}": values for name, values in about.items()})
            with self._lock:
                self._new = (*self._new[-MOST:], receipt)
                self._texts[receipt.id] = query or "", [one.text for one in (*recall.items, *corrections)]
                while len(self._texts) > 2 * PENDING:  # the oldest: those of other processes are in between
                    self._texts.pop(next(iter(self._texts)))
                is_full = len(self._new) >= RARELY
            if is_full:
                self.keep()
        self.callbacks.recalled(recall)

    def totals(self) -> Totals:
        """Return the sums over all blocks that were ever recalled."""
        return self._merged()[0]

    def newest(self, limit: int = 20) -> list[Receipt]:
        """Return the newest receipts, the newest first; 16 are kept."""
        corrected: dict[int, tuple[int, ...]] = {}
        for old, new in self._archive.journal.corrections():
            corrected[new] = (*corrected.get(new, ()), old)
        return [_naming(receipt, corrected) for receipt in self._merged()[1][::-1][: max(limit, 0)]]

    def keep(self) -> None:
        """Write down what is new. Where that cannot be, it waits for the next time."""
        if not (self._new or self._used):
            return
        with suppress(StorageError), self._archive.journal.together():
            with self._lock:
                new, used = self._new, self._used
            self._archive.journal.keep({RECEIPTS: _dumped(*self._merged(new, used))})
            with self._lock:
                self._new, self._used = self._new[len(new) :], self._used - used

    def _merged(
        self, new: Sequence[Receipt] | None = None, used: Collection[Place] | None = None
    ) -> tuple[Totals, list[Receipt]]:
        """Return the receipts of all processes, with those of this one that are not written yet."""
        new, used = self._new if new is None else new, self._used if used is None else used
        totals, written = _parsed(self._archive.journal.setting(RECEIPTS))
        before, marked = [*written, *new], {id for id, _ in used}
        now = [_used(one, used) if one.id in marked else one for one in before]
        first_used = len(marked - {one.id for one in before if one.used})
        tokens = sum(one.tokens for one in new)
        sums = totals.recalls + len(new), totals.recalls_used + first_used, totals.recalled_tokens + tokens
        return Totals(*sums), now[-KEPT:]

    # -- what the agent says ------------------------------------------------------------------------------------------

    def _watch(self, steps: Sequence[Step]) -> None:
        """Mark what the agent uses in its own words in these steps, which were added."""
        for step in steps:
            if (said := _words(step, own=True)) and (receipts := self._pending()):
                self._mark(step, _names_in(said[:LOOKED_AT]), receipts)
        if len(self._new) >= AT_ONCE:
            self.keep()

    def _pending(self) -> list[Receipt]:
        """Return the receipts that may still be used, of all processes, the newest first."""
        raw = self._archive.journal.setting(RECEIPTS)
        if raw != self._read[0]:
            self._read = raw, _parsed(raw)[1]
        with self._lock:
            return [*reversed(self._new), *reversed(self._read[1])][:PENDING]

    def _mark(self, step: Step, names: Names, receipts: Sequence[Receipt]) -> None:
        """Mark the newest excerpt that has a name, for each of these that nobody else had said before."""
        session, said = self._hash(step.session), None
        for one in receipts:
            if one.session not in ("", session) or step.timestamp < one.time:
                continue
            query, texts = self._texts_of(one)
            for at, text in enumerate(texts):
                lowered = text.lower()
                found = {name for name in names if name in lowered}
                if not found or not (found := found & _names_in(text) - _names_in(query)):
                    continue
                names -= found
                if one.items[at].used or (one.id, at) in self._used:
                    continue
                said = self._said_before(step) if said is None else said
                if any(_is_new(name, one.time, said) for name in found):
                    add_event("tinymem.used", {"tinymem.steps": [one.items[at].number]})
                    with self._lock:
                        self._used |= {(one.id, at)}

    def _texts_of(self, one: Receipt) -> tuple[str, list[str]]:
        """Return the question and the excerpts of a receipt; of another process's, the excerpts alone."""
        if one.id not in self._texts:
            steps = self._archive.fetch([item.number for item in one.items])
            with self._archive.checking_parts():
                self._texts[one.id] = (
                    "",
                    [
                        steps[item.number].parts()[item.part].text[item.start : item.end]
                        if item.number in steps
                        else ""
                        for item in one.items
                    ],
                )
        return self._texts[one.id]

    def _said_before(self, step: Step) -> list[tuple[Step, str]]:
        last = step.step_number or 0
        before = self._archive.fetch(range(max(1, last - BEFORE), last)).values()
        return [(one, one.text.lower()) for one in before if one.session == step.session]

    def _hash(self, session: str | None) -> str:
        key = self._archive.key[: hashlib.blake2b.MAX_KEY_SIZE]
        return "" if session is None else hashlib.blake2b(session.encode(), key=key, digest_size=8).hexdigest()


def _receipt(recall: Recall, when: datetime, session: str, corrections: Sequence[Excerpt]) -> Receipt:
    ranked = sorted(range(len(recall.items)), key=lambda at: -recall.items[at].score)
    rank = {at: place for place, at in enumerate(ranked, 1)}
    items = (
        ReceiptItem(one.step.step_number or 0, one.part, one.start, one.end, rank.get(at, at + 1), one.tokens)
        for at, one in enumerate((*recall.items, *corrections))
    )
    tokens = recall.tokens + sum(one.tokens for one in corrections)
    return Receipt(when, tokens, tuple(items), session)


def _naming(receipt: Receipt, corrected: Mapping[int, tuple[int, ...]]) -> Receipt:
    """Return a receipt whose items name what they correct: the `corrected` steps by the number of the correction."""
    items = [item._replace(corrects=corrected.get(item.number, ())) for item in receipt.items]
    return replace(receipt, items=(*items,))


def _used(receipt: Receipt, used: Collection[Place]) -> Receipt:
    items = (item._replace(used=item.used or (receipt.id, at) in used) for at, item in enumerate(receipt.items))
    return replace(receipt, items=tuple(items))


def _is_new(name: str, since: datetime, said: Sequence[tuple[Step, str]]) -> bool:
    """Return whether a name stands in none of these steps, but for what the agent said since the block came."""
    return not any(
        step.timestamp < since or name in _words(step, own=False).lower() for step, text in said if name in text
    )


def _words(step: Step, own: bool) -> str:
    """Return what a step has of the agent's own words, or what others said in it."""
    return "\n".join(part.text for part in step.parts() if (part.kind in OWN) is own)


def _names_in(text: str) -> Names:
    return frozenset(map(str.lower, identifiers(text)))


# -- as they are written ----------------------------------------------------------------------------------------------


def _dumped(totals: Totals, receipts: Sequence[Receipt]) -> str:
    records = [
        [one.id, one.time.isoformat(), one.session, one.tokens, *chain(*(item[:FIGURES] for item in one.items))]
        for one in receipts
    ]
    return json.dumps({"totals": vars(totals), "receipts": records})


def _items(figures: Sequence[int]) -> tuple[ReceiptItem, ...]:
    return tuple(ReceiptItem(*item) for item in zip(*(figures[at::FIGURES] for at in range(FIGURES)), strict=True))


def _parsed(raw: str | None) -> tuple[Totals, list[Receipt]]:
    """Read what was written; what is damaged counts as nothing, since these are only statistics."""
    try:
        state: dict[str, Any] = json.loads(raw or "{}")
        receipts = [
            Receipt(datetime.fromisoformat(time), tokens, _items(figures), session, id)
            for id, time, session, tokens, *figures in state.get("receipts", ())
        ]
        return Totals(**state.get("totals", {})), receipts
    except (ValueError, TypeError, AttributeError):
        return Totals(), []
