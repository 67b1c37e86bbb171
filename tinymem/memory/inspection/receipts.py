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
from tinymem.recall.query.identifiers import identifiers
from tinymem.steps.step import Step
from tinymem.steps.terminal import pluralize

if TYPE_CHECKING:
    from tinymem.archive.archive import Archive
    from tinymem.archive.callbacks import Callbacks
    from tinymem.recall.results import Excerpt, Recall

__all__ = ["Receipt", "ReceiptItem", "Receipts", "Totals"]

RECEIPTS = "receipts"  # the blocks that were recalled, without their texts, and their sums, as JSON

Place: TypeAlias = tuple[str, int]  # of an excerpt: the id of its receipt, and which one it is there
Names: TypeAlias = frozenset[str]

KEPT = 16  # receipts that are kept
MOST_UNWRITTEN = 64  # receipts that wait to be written: as many may be lost with a killed process
MOST = 1_000  # that wait for a journal that cannot be written
LATER = 4  # blocks that may be used at a time, the newest ones
NEXT_STEPS = 16  # after a block, in which the agent may use it
STEPS_BEFORE = 8  # a block, in which nobody else may have said it
LOOKED_AT = 4_000  # characters of what the agent says in a step
FIGURES = 6  # of an item that are written; what is used and what it corrects is asked for
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
        after: The number of the newest step that could be recalled then.
        session: A keyed hash of the session that may use it, so that its name can be forgotten; "" for any.
        id: Its own name.
    """

    time: datetime
    tokens: int
    items: tuple[ReceiptItem, ...]
    after: int = field(default=0, repr=False)
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

    What was used is worked out when somebody asks, and when a receipt is so old that only its sums are kept.

    Args:
        archive: The memory's archive.
        callbacks: The callbacks of the memory's user.

    Attributes:
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
        self._archive, self._callbacks = archive, callbacks
        self.is_on = True
        self._lock = threading.Lock()  # never held while the journal is asked
        self._new: list[Receipt] = []  # not written yet, the newest last
        self._asked: dict[str, Names] = {}  # what the questions of this process named, by the receipt's id

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
            items = _items_of(recall, corrections)
            tokens = recall.tokens + sum(excerpt.tokens for excerpt in corrections)
            receipt = Receipt(when, tokens, items, self._archive.last_step, self._hash(session))
            self._hold(receipt, query or "")
        self._callbacks.recalled(recall)

    def totals(self) -> Totals:
        """Return the sums over all blocks that were ever recalled."""
        totals, receipts = self._read(self._new)
        return replace(totals, recalls_used=totals.recalls_used + _count_used(receipts))

    def newest(self, limit: int = 20) -> list[Receipt]:
        """Return the newest receipts, the newest first; 16 are kept."""
        corrected: dict[int, tuple[int, ...]] = {}
        for old, new in self._archive.journal.corrections():
            corrected[new] = (*corrected.get(new, ()), old)
        receipts = self._read(self._new)[1][-KEPT:]
        return [_naming(receipt, corrected) for receipt in receipts[::-1][: max(limit, 0)]]

    def keep(self) -> None:
        """Write down what is new. Where that cannot be, it waits for the next time."""
        if not self._new:
            return
        with suppress(StorageError), self._archive.journal.together():
            with self._lock:
                new = [*self._new]
            totals, receipts = self._read(new)
            used = totals.recalls_used + _count_used(receipts[:-KEPT])
            written = _dumped(replace(totals, recalls_used=used), receipts[-KEPT:])
            self._archive.journal.keep({RECEIPTS: written})
            with self._lock:
                self._new = self._new[len(new) :]

    def _hold(self, receipt: Receipt, query: str) -> None:
        """Hold a receipt until there are enough to be written, since that may have to wait for others who write."""
        best = sorted(receipt.items, key=lambda item: item.rank)
        about = {"steps": [item.number for item in best], "tokens": [item.tokens for item in best]}
        add_event("tinymem.recalled", {f"tinymem.{name}": values for name, values in about.items()})
        with self._lock:
            self._new = [*self._new[-MOST:], receipt]
            self._asked[receipt.id] = _names_in(query)
            while len(self._asked) > KEPT + MOST_UNWRITTEN:  # the oldest: those of other processes are in between
                self._asked.pop(next(iter(self._asked)))
        if len(self._new) >= MOST_UNWRITTEN:
            self.keep()

    def _read(self, new: Sequence[Receipt]) -> tuple[Totals, list[Receipt]]:
        """Return the sums and the receipts of all processes, with these `new` ones, and with what was used of them.

        Of those that are returned, the sums have the uses of none.
        """
        totals, written = _parsed(self._archive.journal.setting(RECEIPTS))
        recalls = totals.recalls + len(new)
        tokens = totals.recalled_tokens + sum(receipt.tokens for receipt in new)
        receipts = [*written, *new]
        used = self._find_used(receipts)
        return Totals(recalls, totals.recalls_used, tokens), [_mark_used(receipt, used) for receipt in receipts]

    # -- what the agent says ------------------------------------------------------------------------------------------

    def _find_used(self, receipts: Sequence[Receipt]) -> set[Place]:
        """Return the excerpts that the agent used in its own words, in the steps that came after them."""
        numbers = set[int]()
        for receipt in receipts:
            numbers.update(range(max(1, receipt.after - STEPS_BEFORE), receipt.after + NEXT_STEPS + 1))
            numbers.update(item.number for item in receipt.items)
        steps = self._archive.fetch(sorted(numbers))
        used = set[Place]()
        for number, step in sorted(steps.items()):
            usable = [receipt for receipt in receipts if 0 < number - receipt.after <= NEXT_STEPS]
            if usable:
                used |= self._find_used_in(step, usable[: -LATER - 1 : -1], steps)
        return used

    def _find_used_in(self, step: Step, receipts: Sequence[Receipt], steps: Mapping[int, Step]) -> set[Place]:
        """Return the excerpts of `receipts`, newest first, with a name that the agent in a step is the first to say."""
        names = _names_in(_words(step, is_own=True)[:LOOKED_AT])
        session = self._hash(step.session)
        origins: dict[str, tuple[Receipt, int]] = {}  # by name, the first excerpt that has it
        for receipt in receipts:
            if receipt.session not in ("", session) or step.timestamp < receipt.time:
                continue
            asked = self._asked.get(receipt.id, frozenset())
            for place, item in enumerate(receipt.items):
                for name in names & _names_in(_text_of(item, steps)) - asked:
                    origins.setdefault(name, (receipt, place))
        new = [origin for name, origin in origins.items() if _is_new(name, step, origin[0], steps)]
        return {(receipt.id, place) for receipt, place in new}

    def _hash(self, session: str | None) -> str:
        key = self._archive.key[: hashlib.blake2b.MAX_KEY_SIZE]
        return "" if session is None else hashlib.blake2b(session.encode(), key=key, digest_size=8).hexdigest()


def _items_of(recall: Recall, corrections: Sequence[Excerpt]) -> tuple[ReceiptItem, ...]:
    ranked = sorted(range(len(recall.items)), key=lambda place: -recall.items[place].score)
    rank = {place: number for number, place in enumerate(ranked, 1)}
    items = []
    for place, excerpt in enumerate((*recall.items, *corrections)):
        number = excerpt.step.step_number or 0
        spot = rank.get(place, place + 1)
        items.append(ReceiptItem(number, excerpt.part, excerpt.start, excerpt.end, spot, excerpt.tokens))
    return tuple(items)


def _text_of(item: ReceiptItem, steps: Mapping[int, Step]) -> str:
    """Return the text of an excerpt; "" where its step is gone, or is another one by now."""
    parts = steps[item.number].parts() if item.number in steps else []
    return parts[item.part].text[item.start : item.end] if item.part < len(parts) else ""


def _naming(receipt: Receipt, corrected: Mapping[int, tuple[int, ...]]) -> Receipt:
    """Return a receipt whose items name what they correct: the `corrected` steps by the number of the correction."""
    items = [item._replace(corrects=corrected.get(item.number, ())) for item in receipt.items]
    return replace(receipt, items=(*items,))


def _mark_used(receipt: Receipt, used: Collection[Place]) -> Receipt:
    items = [item._replace(used=(receipt.id, place) in used) for place, item in enumerate(receipt.items)]
    return replace(receipt, items=tuple(items))


def _count_used(receipts: Sequence[Receipt]) -> int:
    return sum(receipt.used for receipt in receipts)


def _is_new(name: str, said_in: Step, receipt: Receipt, steps: Mapping[int, Step]) -> bool:
    """Return whether nobody had said a name shortly before, but for the agent since the block came."""
    last = said_in.step_number or 0
    for number in range(receipt.after - STEPS_BEFORE, last):
        step = steps.get(number)
        if step is None or step.session != said_in.session:
            continue
        words = step.text if number <= receipt.after else _words(step, is_own=False)
        if name in words.lower():
            return False
    return True


def _words(step: Step, is_own: bool) -> str:
    """Return what a step has of the agent's own words, or what others said in it."""
    return "\n".join(part.text for part in step.parts() if (part.kind in OWN) is is_own)


def _names_in(text: str) -> Names:
    return frozenset(map(str.lower, identifiers(text)))


# -- as they are written ----------------------------------------------------------------------------------------------


def _dumped(totals: Totals, receipts: Sequence[Receipt]) -> str:
    records = []
    for receipt in receipts:
        figures = chain.from_iterable(item[:FIGURES] for item in receipt.items)
        time = receipt.time.isoformat()
        records.append([receipt.id, time, receipt.session, receipt.tokens, receipt.after, *figures])
    return json.dumps({"totals": vars(totals), "blocks": records})


def _parsed(raw: str | None) -> tuple[Totals, list[Receipt]]:
    """Read what was written; what is damaged counts as nothing, since these are only statistics."""
    receipts = []
    try:
        state: dict[str, Any] = json.loads(raw or "{}")
        for id, time, session, tokens, after, *figures in state.get("blocks", ()):
            rows = zip(*(figures[place::FIGURES] for place in range(FIGURES)), strict=True)
            items = tuple(ReceiptItem(*row) for row in rows)
            receipts.append(Receipt(datetime.fromisoformat(time), tokens, items, after, session, id))
        return Totals(**state.get("totals", {})), receipts
    except (ValueError, TypeError, AttributeError):
        return Totals(), []
