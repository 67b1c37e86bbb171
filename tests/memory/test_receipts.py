"""Receipts: each recalled block is counted, and so is whether the agent's next words have what only the block said."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tinymem import HierarchicalMemory, MessageStep
from tinymem.memory.inspection.receipts import KEPT, MOST_UNWRITTEN
from tinymem.steps.ids import utc_now

open_memory = partial(HierarchicalMemory, store="exact", embedder="hashing:256")
FACT = MessageStep("user", "The parcel has the number PK-70812.", session="monday")
QUESTION = "Which number has the parcel?"


def said(memory: HierarchicalMemory, text: str, role: str = "assistant", session: str | None = None) -> None:
    memory.add_message(role, text, session=session)


def test_a_block_is_used_when_the_agent_says_what_only_it_had() -> None:
    with open_memory() as memory:
        fact = memory.archive([FACT])[0]
        recalled = memory.recall(QUESTION)
        said(memory, "It is PK-70812.")
        (receipt,) = memory.receipts.newest()
        stats = memory.stats()
    assert [(item.number, item.rank, item.used) for item in receipt.items] == [(fact.step_number, 1, True)]
    assert (stats.recalls, stats.recalls_used, stats.recalled_tokens) == (1, 1, recalled.tokens)


def test_the_newest_block_that_has_it_is_the_one_that_was_used() -> None:
    with open_memory() as memory:
        memory.archive([FACT])
        for _ in range(2):
            memory.recall(QUESTION)
        said(memory, "It is PK-70812.")
        assert [one.used for one in memory.receipts.newest()] == [True, False]


def test_contexts_and_fits_are_counted_once_for_each_block_they_send() -> None:
    with open_memory(max_tokens=2_000) as memory:
        memory.archive([FACT])
        asked = [{"role": "user", "content": QUESTION}]
        sent = memory.fit(asked, session="a")
        assert memory.fit(asked, session="a").messages == sent.messages
        answer = {"role": "assistant", "content": "It is PK-70812."}
        memory.archive_messages([*asked, answer], session="b")
        assert memory.receipts.totals().recalls_used == 0  # another conversation than the block's
        memory.archive_messages([*asked, answer], session="a")
        assert (memory.receipts.totals().recalls, memory.receipts.totals().recalls_used) == (1, 1)


def test_counts_outlive_the_process_and_add_up_over_processes(tmp_path: Path) -> None:
    with open_memory(tmp_path) as one, open_memory(tmp_path) as other:
        one.archive([FACT])
        one.recall(QUESTION)
        one.receipts.keep()
        said(other, "It is PK-70812.")  # by another process, as the hooks of an agent
        other.recall(QUESTION)
        for _ in range(2 * KEPT):  # until the first one is only in the sums
            one.recall(QUESTION)
    with open_memory(tmp_path) as memory:
        totals = memory.receipts.totals()
        assert (totals.recalls, totals.recalls_used) == (2 * KEPT + 2, 1)
        assert str(totals).startswith(f"recalled {2 * KEPT + 2} times, 3% used, ")


def test_no_word_of_a_block_and_no_name_of_a_session_is_kept(tmp_path: Path) -> None:
    with open_memory(tmp_path) as memory:
        memory.archive([FACT])
        memory.fit([{"role": "user", "content": QUESTION}], session="secret-91")
        memory.receipts.keep()
        kept = str(memory.long_term.journal.setting("receipts"))
    assert "recalls" in kept and "PK" not in kept and "secret" not in kept


def test_a_memory_that_is_only_asked_writes_its_receipts_now_and_then() -> None:
    with open_memory() as memory:
        memory.archive([FACT])
        for _ in range(MOST_UNWRITTEN):
            memory.recall(QUESTION)
        assert f'"recalls": {MOST_UNWRITTEN}' in str(memory.long_term.journal.setting("receipts"))


def test_damaged_receipts_count_as_none() -> None:
    with open_memory() as memory:
        memory.long_term.journal.keep({"receipts": '{"blocks": [7]}'})
        memory.archive([FACT])
        memory.recall(QUESTION, now=utc_now())
        assert memory.receipts.totals().recalls == 1


def test_where_people_look_nothing_is_counted() -> None:
    with open_memory() as memory:
        memory.archive([FACT])
        memory.receipts.is_on = False
        memory.recall(QUESTION)
        assert memory.receipts.newest() == []


@pytest.mark.parametrize(
    ("before", "query", "words", "role"),
    [
        ("Is it PK-70812?", QUESTION, "It is PK-70812.", "assistant"),  # somebody else said it before
        ("Hello.", "Where is the parcel PK-70812?", "PK-70812 is not here.", "assistant"),  # the question named it
        ("Hello.", QUESTION, "I do not know that number.", "assistant"),
        ("Hello.", QUESTION, "PK-70812", "user"),
    ],
)
def test_what_the_agent_has_from_elsewhere_is_no_use(before: str, query: str, words: str, role: str) -> None:
    with open_memory() as memory:
        memory.archive([FACT])
        said(memory, before, "user")
        assert memory.recall(query).items
        said(memory, words, role)
        assert not memory.receipts.newest()[0].used
