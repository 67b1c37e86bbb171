"""A history that its framework holds: the window is itself, what is new in it is archived once, more is recalled."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memories import open_memory
from strategies import MODERATE, chats
from turns import answers, asks, call, lines

from tinymem import HierarchicalMemory, MessageStep, count_tokens
from tinymem.errors import BudgetError, MessageError
from tinymem.messages import problems
from tinymem.messages.conversion import messages_from_steps
from tinymem.messages.formats import FORMATS, conversation_from, write_messages
from tinymem.messages.recognition import body_of
from tinymem.recall.render import is_block

Chat = list[dict[str, Any]]
FEWER = settings(MODERATE, max_examples=20)  # each opens several memories
SYSTEM = {"role": "system", "content": "Be brief."}


def turn(id: str, text: str) -> Chat:
    return [asks(call(id, arguments=json.dumps({"at": id}))), answers(id, text)]


def archived(memory: HierarchicalMemory) -> Chat:
    numbers = [row.number for row in memory.long_term.journal.rows(limit=100_000)]
    return messages_from_steps(memory.get(number) for number in numbers)


def count(memory: HierarchicalMemory) -> int:
    return memory.stats().steps


# -- what is new is archived once


@FEWER
@given(chats(), st.data())
def test_whatever_a_history_holds_it_is_archived_once_and_sent_valid(chat: Chat, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(chat)), max_size=3).map(sorted))
    prompts = next((at for at, m in enumerate(chat) if m["role"] not in ("system", "developer")), len(chat))
    with open_memory(max_tokens=2_000) as memory:
        for cut in (*cuts, len(chat), len(chat)):
            try:
                context = memory.fit(chat[:cut], session="s", format="openai")
            except BudgetError:
                continue
            assert problems(context.messages) == [] and context.tokens <= 2_000
            shown = [entry.input for entry in context.entries if entry.input is not None]
            assert len(shown) == len(set(shown))
        assert archived(memory) == conversation_from(chat, "openai").messages[prompts:]  # less marks of caches


@st.composite
def versions(draw: st.DrawFn) -> list[Chat]:
    """Versions of one history as a framework may hand them over, each message with words of its own."""
    names = iter(range(10_000))

    def said() -> Chat:
        at = next(names)
        return turn(f"c{at}", f"found {at}") if draw(st.booleans()) else lines(f"line {at}")

    history: Chat = [message for _ in range(draw(st.integers(1, 4))) for message in said()]
    found = [history]
    for _ in range(draw(st.integers(1, 6))):
        history = list(history)
        at = draw(st.integers(0, max(0, len(history) - 1)))
        kind = draw(
            st.sampled_from(["grow", "grow", "grow", "again", "cut", "summary", "edit", "clear", "insert", "branch"])
        )
        if kind == "cut":
            history = history[at:]
        elif kind == "summary":
            history = [*lines(f"Summary {next(names)}"), *history[at:]]
        elif kind == "edit" and history[at]["role"] == "user":
            history[at] = {"role": "user", "content": f"edit {next(names)}"}
        elif kind == "clear" and history[at]["role"] == "tool":
            history[at] = {**history[at], "content": f"[cleared {next(names)}]"}
        elif kind == "insert" and history[at]["role"] != "tool":
            history[at:at] = lines(f"between {next(names)}")
        elif kind == "branch":
            history = history[: at + 1]
        if kind not in ("again", "cut", "branch") or not history:
            history = [*history, *said()]
        found.append(history)
    return found


@FEWER
@given(versions(), st.data())
def test_edits_branches_cuts_and_restarts_double_nothing_and_lose_nothing(all: list[Chat], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, ExitStack() as opened:  # a draw may end the test
        memory = opened.enter_context(open_memory(folder))
        for history in all:
            memory.fit(history, session="s")
            if data.draw(st.booleans()):
                memory.close()
                memory = opened.enter_context(open_memory(folder))
        wanted = {body_of(message) for history in all for message in history}
        assert Counter(map(body_of, archived(memory))) == Counter(wanted)


def test_words_that_a_cut_history_says_again_count_as_those_that_were_cut_off(memory: HierarchicalMemory) -> None:
    history = lines("yes", "a", "yes", "b", "c")
    memory.fit(history, session="s")
    memory.fit([*history[3:], {"role": "user", "content": "yes"}, *lines("d")], session="s")
    assert [message["content"] for message in archived(memory)] == ["yes", "a", "yes", "b", "c", "d"]


def test_an_answer_that_is_handed_over_at_once_is_known_later(tmp_path: Path) -> None:
    history, answer = [SYSTEM, *lines("Look."), *turn("c1", "a.txt")], {"role": "assistant", "content": "a.txt."}
    with open_memory(tmp_path) as memory:
        memory.fit(history, session="s")
        memory.add_messages([answer], session="s")
    with open_memory(tmp_path) as memory:
        memory.fit([*history, answer, *lines("And b.txt?")], session="s")
        assert archived(memory) == [*history[1:], answer, *lines("And b.txt?")]


def test_results_that_are_not_there_yet_come_later(memory: HierarchicalMemory) -> None:
    calls = asks("a", "b")
    done = {"role": "assistant", "content": "Done."}
    history = [*lines("Look."), calls, answers("a", "one"), answers("b", "two"), done]
    for until in (2, 3, 3, 4, 5):
        context = memory.fit(history[:until], session="s")
        assert problems(context.messages) == []
        assert [entry.kind for entry in context.entries].count("placeholder") == max(0, 4 - until)
    assert archived(memory) == history


def test_system_prompts_that_come_with_every_call_are_shown_and_not_archived(memory: HierarchicalMemory) -> None:
    for day in ("Monday", "Tuesday", "Tuesday"):
        prompts = [{"role": "system", "content": f"Today is {day}."}, {"role": "developer", "content": "Be kind."}]
        context = memory.fit([*prompts, *lines("a", "b")], session="s")
        assert context.messages == [*prompts, *lines("a", "b")]
    assert archived(memory) == lines("a", "b")


def test_what_a_context_added_is_left_out_when_it_comes_back() -> None:
    with open_memory(max_tokens=400) as memory:
        history = lines(*(f"note {at}: crate {at * 7} stands in hall {at}" for at in range(40)))
        context = memory.fit(history, session="s", query="Where is crate 21?")
        assert "recalled" in {entry.kind for entry in context.entries}
        memory.fit(context.messages, session="s")
        memory.fit([{"role": "user", "content": "(Earlier messages are not shown.)"}, *context.messages], session="s")
        assert count(memory) == 40


def test_what_was_forgotten_stays_away(tmp_path: Path) -> None:
    history = lines("zyxqvortex", "b", "zyxqvortex is the word")
    with open_memory(tmp_path) as memory:
        memory.fit(history, session="s")
        memory.forget(session="s")
        memory.fit(history, session="s")
        assert count(memory) == 0
    with open_memory(tmp_path) as memory:
        memory.fit(history, session="s")
        assert count(memory) == 0


def test_what_is_redacted_is_recognised_and_the_caller_sends_its_own_words(tmp_path: Path) -> None:
    history = lines("the key is sk-1", "ok")
    for until in (1, 2, 2):
        with open_memory(tmp_path, redact=lambda text: text.replace("sk-1", "*")) as memory:
            context = memory.fit(history[:until], session="s", metadata={"by": "sk-1"})
            assert context.messages == history[:until]
            assert {*(step.metadata["by"] for step in memory.history())} == {"*"}
            memory.add_messages(history[:until], session="s", on_conflict="skip")
            assert archived(memory) == lines("the key is *", "ok")[:until]


def test_added_by_hand_and_fitted_it_is_the_same_history(memory: HierarchicalMemory) -> None:
    history = [SYSTEM, {"role": "system", "content": "Be kind."}, *lines("one", "two"), *turn("c", "a.txt")]
    memory.add_messages(history, session="s", on_conflict="skip")
    memory.fit([*history, *lines("new")], session="s")
    assert archived(memory) == [*history, *lines("new")]


TRIP = lines(
    "Plan a trip to Lisbon for 500 euros.", "Lisbon for 500 euros: sleep at the hostel Aurora.", "And?", "Bye."
)
PORTO, BRIEF = "Plan a trip to Porto for 900 euros.", "They spoke about where to stay in the south."
EDITS: list[tuple[int, list[Chat], bool]] = [  # messages before, histories that came then, is it an edit
    (4, [lines(PORTO), lines(PORTO, "The hotel Douro.")], True),
    (4, [lines(TRIP[0]["content"], "Lisbon for 500 euros: sleep at the pension Estrela.")], True),
    (2, [TRIP[:1], lines(TRIP[0]["content"], "No.")], True),
    (4, [TRIP[2:], [*TRIP[2:], *lines("And now?")]], False),  # cut at its front
    (4, [[*lines("Summary: " + TRIP[0]["content"]), *TRIP[2:]]], False),  # in a summary, or all but the request is
    (4, [lines(TRIP[0]["content"], BRIEF)], False),
    (4, [lines("Which pump is loud?")], False),  # another conversation
]


@pytest.mark.parametrize(("count", "later", "is_edit"), EDITS)
def test_what_was_edited_away_is_corrected_by_what_stands_there_now(
    memory: HierarchicalMemory, count: int, later: list[Chat], is_edit: bool
) -> None:
    memory.fit(TRIP[:1], session="s")
    memory.fit(TRIP[:count], session="s")
    memory.fit(TRIP[:count], session="other")
    for history in later:
        memory.fit(history, session="s")
    question = "Where shall I sleep in Lisbon for 500 euros?"
    assert ("Aurora" in memory.recall(question, session="s").text) is not is_edit
    assert "Aurora" in memory.recall(question, session="other").text and memory.get(2).text == TRIP[1]["content"]


def test_a_result_that_was_shortened_is_no_edit(memory: HierarchicalMemory) -> None:
    history = [*lines("Look."), *turn("c", "The safe opens with 7-3-9."), *turn("d", "The door opens with 1-1-2.")]
    memory.fit(history, session="s")
    memory.fit([*history[:-1], answers("d", "The door opens")], session="s")
    assert "1-1-2" in memory.recall("What opens the door?").text


# -- what is shown


def test_a_history_that_fits_is_sent_as_it_is_and_in_no_other_window(memory: HierarchicalMemory) -> None:
    memory.add(MessageStep("user", "Something else."))
    assert memory.fit([SYSTEM, *lines("a", "b")], session="s").messages == [SYSTEM, *lines("a", "b")]
    assert [step.text for step in memory.steps] == ["Something else."]


def test_two_threads_see_nothing_of_each_others_window_and_recall_each_others_facts() -> None:
    asked = lines("What is my dog called?")
    with open_memory(embedder="static") as memory:
        memory.fit(lines("My dog is called Vortex.", "Noted."), session="first")
        context = memory.fit(asked, session="second")
        block, last = context.messages
        assert (
            last == asked[0] and is_block(str(block["content"]), memory.long_term.key) and "Vortex" in block["content"]
        )
        assert context.recalled.items[0].step.session == "first"
        assert memory.fit(asked, session="second", sessions="second").messages == asked


@pytest.mark.parametrize("format", FORMATS)
def test_arguments_longer_than_the_budget_are_shortened_and_stay_an_object(format: str) -> None:
    history = [
        *lines("Write it."),
        asks(call("c", "write", json.dumps({"path": "a.txt", "text": "word " * 5_000}))),
        answers("c", "written"),
    ]
    with open_memory(max_tokens=600) as memory:
        context = memory.fit(write_messages(history, format), session="s", format=format)
        sent = conversation_from(context.to(), format).messages
        arguments = json.loads(sent[-2]["tool_calls"][0]["function"]["arguments"])
        assert arguments["path"] == "a.txt" and "characters left out" in arguments["text"]
        assert [(entry.input, entry.shortened) for entry in context.entries[-2:]] == [(1, True), (2, False)]
        assert sent[-1]["tool_call_id"] == "c" and count_tokens(sent) <= 600


def test_what_does_not_fit_at_all_is_an_error_with_numbers_and_still_archived(memory: HierarchicalMemory) -> None:
    with pytest.raises(BudgetError, match="newest messages"):
        memory.fit([*lines("a" * 50), *turn("c" * 30, "x")], session="s", max_tokens=15)
    assert count(memory) == 2


# -- entries


def test_entries_say_where_each_message_comes_from() -> None:
    history = [SYSTEM, *lines("Old news about Ada.", "Yes.")]
    for at in range(30):
        history += turn(f"c{at}", f"row {at} " * 9)
    with open_memory(max_tokens=700) as memory:
        memory.scratchpad.store("port", 8443)
        context = memory.fit(history, session="s", query="row 2")
        kinds = [entry.kind for entry in context.entries]
        assert kinds.count("recalled") == kinds.count("scratchpad") == 1 and context.stable == len(kinds)
        for entry in context.entries:
            assert (entry.kind == "message") == (entry.input is not None)
            assert entry.input is None or (entry.message == history[entry.input] and not entry.shortened)
            assert entry.input in (None, 0) or entry.steps[0].step_number is not None
        (recalled,) = (entry for entry in context.entries if entry.kind == "recalled")
        assert set(recalled.steps) == {item.step for item in context.recalled.items}


def test_native_parts_are_kept_given_back_and_neither_counted_nor_searched(memory: HierarchicalMemory) -> None:
    plain = [*lines("Look into the hall."), *turn("c", "The hall is empty.")]
    history = [
        {**message, "native": {"zyxqvortex": [at, None, "zyxqvortex " * 50]}} for at, message in enumerate(plain)
    ]
    tokens = memory.fit(plain, session="p").tokens
    context = memory.fit(history, session="p", sessions="p")
    assert context.tokens == tokens and context.messages == plain
    assert [entry.native for entry in context.entries] == [message["native"] for message in history]
    assert count(memory) == 2  # it is the same history
    memory.fit(history, session="n")
    journal = memory.long_term.journal
    assert [row.tokens for row in journal.rows()][:2] == [row.tokens for row in journal.rows()][2:]
    assert "zyxqvortex" not in memory.recall("zyxqvortex").text
    assert memory.get(3).to_messages() == history[:1]


# -- what was asked last


@pytest.mark.parametrize(("budget", "sheds"), [(1_200, 188), (1_300, 229), (1_400, 237)])
def test_a_prompt_that_leaves_recall_no_room_jumps(budget: int, sheds: int) -> None:
    """What a user asks when the window is full is answered at once, and not by the next prompt."""
    history = lines("The farm code is KESTREL-12.", "Noted.")
    for n in range(12):
        history += lines(f"Tell me about barn {n}.", " ".join(f"stall-{n * 31 + at} has hay" for at in range(9)))
    history += lines("Tell me about sheds.", " ".join(f"shed-{at} has oats" for at in range(sheds)))
    with HierarchicalMemory(store="exact") as memory:
        full = memory.fit(history, session="s", max_tokens=budget)
        asked = [*history, *lines("Which farm code did I give you at the start?")]
        sent = memory.fit(asked, session="s", max_tokens=budget)
        again = memory.fit(asked, session="s", max_tokens=budget)
    assert full.tokens > budget - 80 and "KESTREL-12" not in str(full.messages)
    assert "KESTREL-12" in str(sent.messages) and again.messages == sent.messages


# -- mistakes


def test_an_empty_history_recalls_what_is_asked_for(memory: HierarchicalMemory) -> None:
    assert memory.fit([], session="s").messages == []
    memory.fit(lines("Ada likes pears."), session="t")
    assert "pears" in str(memory.fit([], session="s", query="What does Ada like?").messages)


def test_what_is_archived_behind_a_session_is_known_when_the_history_comes_whole(memory: HierarchicalMemory) -> None:
    history = [*lines("Where is staging?"), *turn("c1", "At 10.0.0.7."), *lines("Where is staging?")]
    marked = [{**message, "native": at} for at, message in enumerate(history)]
    for part in (marked[:2], marked[2:3], marked[3:]):  # the result comes later than its call
        memory.archive_messages(part, session="s", on_conflict="add")
    kept = [message for step in memory.history("s") for message in step.to_messages()]
    assert [message["native"] for message in kept] == [0, 1, 2, 3]
    before = count(memory)
    assert memory.fit(history, session="s").messages == history
    assert count(memory) == before
    memory.archive_messages(marked[:1], session="s", on_conflict="add")
    assert count(memory) == before + 1


@pytest.mark.parametrize("native", [False, True])
def test_a_result_longer_than_the_budget_is_shortened_and_stays_with_its_call(native: bool) -> None:
    history = [*lines("Read it."), asks("c"), answers("c", "word " * 5_000)]
    if native:
        for message in history:
            message["native"] = {"blocks": ["x" * 20_000]}
    with open_memory(max_tokens=600) as memory:
        context = memory.fit(history, session="s")
        assert [m["role"] for m in context.messages[-2:]] == ["assistant", "tool"] and context.tokens <= 600
        assert [(entry.input, entry.shortened) for entry in context.entries[-2:]] == [(1, False), (2, True)]


def test_items_of_anthropic_go_back_as_they_came(memory: HierarchicalMemory) -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    used = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"at": "hall"}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "It is empty."}]}
    asked = {"role": "user", "content": "Look into the hall."}
    turns = [asked, {"role": "assistant", "content": [thinking, used]}, {"role": "user", "content": [answered]}]
    request = {"system": "Be brief.", "messages": turns}
    for _ in range(2):
        context = memory.fit(request, session="s")
        assert context.to() == request == context.to("anthropic")
    assert count(memory) == 2 and context.to("openai") == context.messages
    assert "ephemeral" in str(context.to(cache_control={"type": "ephemeral"}))


def test_a_malformed_message_is_named_by_its_place_and_nothing_is_archived() -> None:
    with open_memory(max_tokens=400) as memory:
        memory.fit(lines(*(f"crate {at}" for at in range(90))), session="old")
        sent = memory.fit(lines("Where is crate 21?"), session="s").messages
        before = count(memory)
        for bad in ({"role": "wizard"}, 7, {"role": "assistant", "tool_calls": 1}):
            with pytest.raises(MessageError) as caught:
                memory.fit([SYSTEM, *sent, bad], session="s")
            assert caught.value.index == len(sent) + 1 and re.search("message", str(caught.value))
        assert count(memory) == before
        memory.fit([SYSTEM, *sent, *lines("ok")], session="s")
        assert count(memory) == before + 1
