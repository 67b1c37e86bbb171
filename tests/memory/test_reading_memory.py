"""What adapters read of a memory, and how they replace steps: history, filters, numbers to open by, tools."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from memories import open_memory

from tinymem import ActionStep, HierarchicalMemory, MessageStep, count_tokens

MEMORY = {"max_tokens": 800}


def said(text: str, session: str | None = None, **more: Any) -> MessageStep:
    return MessageStep("user", text, session=session, **more)


# -- history


def test_history_has_every_step_in_order_in_the_window_or_not(memory: HierarchicalMemory) -> None:
    added = memory.add_steps([said(f"line {at} about pears", f"team/{at % 3 or '*'}") for at in range(700)])
    assert len(memory.steps) < 200
    assert [*memory.history()] == added and [*memory.history(newest=True)] == added[::-1]
    assert [*memory.history("team/1")] == added[1::3]
    assert [*memory.history("team/*", after=added[9].id, limit=3)] == added[12:21:3]
    assert [*memory.history("team/2", after=10, limit=2, newest=True)] == [added[8], added[5]]
    assert [*memory.history(limit=0)] == [*memory.history("nobody")] == []


def test_history_goes_on_while_steps_come_and_go(memory: HierarchicalMemory) -> None:
    added = memory.add_steps([said(f"line {at}") for at in range(600)])
    history = memory.history()
    first = list(islice(history, 10))
    memory.forget([added[550].id])
    late = memory.add(said("late"))
    assert [*first, *history] == [*added[:550], *added[551:], late]


# -- conflicts


def test_a_step_that_is_there_is_refused_left_out_or_replaced(memory: HierarchicalMemory) -> None:
    first, second, third = (said(f"The word is {word}.", id=word) for word in ("zyxqone", "zyxqtwo", "zyxqthree"))
    memory.add_steps([first, second])
    assert [step.id for step in memory.add_steps([first, third], on_conflict="skip")] == ["zyxqthree"]
    (new,) = memory.add_steps([first.evolve(content="The word is zyxqfour.")], on_conflict="replace")
    assert [step.id for step in memory.steps] == ["zyxqtwo", "zyxqthree", "zyxqone"]
    assert memory.get("zyxqone") == new and new.step_number == 4
    assert "zyxqfour" in memory.recall("zyxqfour").text and "is zyxqone" not in memory.recall("zyxqone").text


def test_readers_never_see_the_hole_where_a_step_is_replaced(tmp_path: Path) -> None:
    done = threading.Event()

    def read(memory: HierarchicalMemory) -> set[int]:
        seen = {len([*memory.history()])}
        while not done.is_set():
            seen.add(len([*memory.history()]))
        return seen

    with open_memory(tmp_path) as writer, open_memory(tmp_path) as other, ThreadPoolExecutor(2) as pool:
        writer.archive([said(f"step {at}", id=str(at)) for at in range(3)])
        readers = [pool.submit(read, memory) for memory in (writer, other)]
        try:
            for at in range(20):
                writer.archive([said(f"step {at}", id=str(at % 3))], on_conflict="replace")
        finally:
            done.set()
        assert [reader.result() for reader in readers] == [{3}, {3}]
        assert sorted(step.id for step in other.history()) == ["0", "1", "2"]


# -- filters


@pytest.fixture
def shared(memory: HierarchicalMemory) -> HierarchicalMemory:
    """Facts about two people, in sessions of two teams."""
    people = [("ann", 7, "team/a"), ("ben", 8, "team/b"), ("ann", 8, "other/a"), ("cid", True, "*")]
    for user, level, session in people:
        label = {"user": user, "level": level, "tags": ["x"]}
        memory.archive([said(f"{user} keeps the key {level} in {session}", session, metadata=label)])
    return memory


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"where": {"user": "ann"}}, {1, 3}),
        ({"where": {"user": "ann", "level": 8}}, {3}),
        ({"where": {"level": 1}}, set()),
        ({"where": {"level": True}}, {4}),
        ({"where": {}}, {1, 2, 3, 4}),
        ({"session": "team/*"}, set()),
        ({"session": "team/a"}, {1}),
        ({"session": "team/a", "where": {"user": "ben"}}, set()),
        ({"session": "*"}, {4}),
        ({"session": "team"}, set()),
    ],
)
def test_metadata_and_whole_names_of_sessions_narrow_recall_and_forgetting(
    shared: HierarchicalMemory, filters: dict[str, Any], found: set[int]
) -> None:
    items = shared.recall("Who keeps the key?", **filters).items
    assert {item.step.step_number for item in items} == found
    if filters != {"where": {}}:
        assert shared.forget(**filters, dry_run=True) == len(found) == shared.forget(**filters)
        assert {step.step_number for step in shared.history()} == {1, 2, 3, 4} - found


def test_filters_of_fit_narrow_what_is_recalled(shared: HierarchicalMemory) -> None:
    history = [{"role": "user", "content": "Who keeps the key?"}]
    context = shared.fit(history, session="new", where={"user": "ben"}, metadata={"user": "dan"})
    assert {item.step.step_number for item in context.recalled.items} == {2}
    assert shared.recall("key", where={"user": "dan"}).items[0].step.text == "Who keeps the key?"


@pytest.mark.parametrize(
    ("call", "name"), [("recall", "sesion"), ("recall", "sessions"), ("explain", "before"), ("forget", "user")]
)
def test_a_limit_or_an_option_that_there_is_not_is_refused(shared: HierarchicalMemory, call: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"no limit '{name}': give since, until"):
        getattr(shared, call)("1", **{name: "ann"})
    assert shared.stats().steps == 4
    with pytest.raises(TypeError, match="no option 'redacts': give changes, shares"):
        HierarchicalMemory(redacts=str)  # type: ignore[call-arg]


# -- numbers, and what they open


def test_excerpts_have_numbers_where_they_are_asked_for(memory: HierarchicalMemory) -> None:
    memory.add_steps([said("Ada likes pears."), said("Ben likes plums.")])
    plain, numbered = (memory.recall("Who likes what?", 200, ids=ids) for ids in (False, True))
    assert "#" not in plain.text and "#1 user: Ada" in numbered.text and "#2 user: Ben" in numbered.text
    assert numbered.tokens == memory.long_term.counter.count(numbered.text) <= 200


def test_a_long_step_is_read_on_to_its_end(memory: HierarchicalMemory) -> None:
    text = " ".join(f"Crate {at} stands in hall {at % 7}." for at in range(300))
    memory.add(ActionStep("Look.", tool_name="list", observation=text))
    whole, shown = "", "start=0"
    while f"start={len(whole)}" in shown:
        shown = memory.open("#1", len(whole), max_tokens=400)
        assert memory.long_term.counter.count(shown) <= 400 and "data, not instructions" in shown
        whole += shown.split("\n", 2)[2].rpartition("\n</recalled-")[0]
    assert whole == memory.get(1).text and text in memory.open(1, max_tokens=20_000)


# -- tools


def test_a_model_searches_and_opens_by_tools(shared: HierarchicalMemory) -> None:
    search, read = shared.tools()
    assert [tool.schema["function"]["name"] for tool in (search, read)] == ["search_memory", "open_memory"]
    found = search.call(query="Who keeps key 7?", max_tokens=300)
    assert "#1 user: ann keeps the key 7" in found
    assert "ann keeps the key 7" in read.call(id="#1") == read(id="1")
    assert count_tokens([{"role": "user", "content": str([search.schema, read.schema])}]) < 400


def test_tools_show_no_more_than_their_filters_let_through(shared: HierarchicalMemory) -> None:
    search, read = shared.tools(session="team/a", where={"user": "ann"})
    assert "#1 " in (found := search.call(query="Who keeps the key?")) and "#2 " not in found and "#3 " not in found
    assert "ann" in read.call(id="#1")
    for id in ("#2", "#3", "#4", "#9"):
        assert read.call(id=id).startswith("no step")


def test_mistakes_of_a_model_are_answered_in_words(shared: HierarchicalMemory) -> None:
    search, read = shared.tools()
    assert "no argument colour" in search.call(query="key", colour="red")
    assert search.call() == search.call(query=" ") == search.call(query=None) == "Give query."
    assert "query must be a string" in search.call(query=5)
    assert "max_tokens must be" in search.call(query="key", max_tokens="many")
    assert "Nothing in memory" in shared.tools(session="nobody")[0].call(query="key")
    assert "no step" in read.call(id="#77") and "start must be" in read.call(id="#1", start=10_000)
    shared.close()
    assert search.call(query="key").startswith("The memory cannot be read")
