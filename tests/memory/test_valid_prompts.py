"""Whatever was said, noted, corrected and asked: every prompt is valid, within its budget, and shows nothing twice."""

from __future__ import annotations

from typing import Any

import anthropic_rules
import pytest
import responses_rules
from hypothesis import given
from hypothesis import strategies as st
from memories import open_memory
from native_chats import anthropic_chats, responses_chats
from strategies import MODERATE, chats, texts

from tinymem import Context, HierarchicalMemory, count_tokens
from tinymem.errors import BudgetError
from tinymem.messages import problems
from tinymem.messages.formats import FORMATS, conversation_from
from tinymem.messages.tokens import default_counter

CHATS: dict[str, st.SearchStrategy[Any]] = {
    "openai": chats(),
    "responses": responses_chats(),
    "anthropic": anthropic_chats(),
}
BUDGETS = st.one_of(st.integers(20, 300), st.integers(200, 2_000))
MAKERS = ["context", "context of a session", "fit", "fit with a question"]


def built(memory: HierarchicalMemory, maker: str, items: Any, format: str, budget: int) -> Context:
    """A prompt for a history, as a format holds it; a context's own window has it already."""
    if maker == "context":
        return memory.context(max_tokens=budget)
    if maker == "context of a session":
        return memory.context(session="s", max_tokens=budget)
    query = "What is there?" if maker == "fit with a question" else None
    return memory.fit(items, session="s", query=query, format=format, max_tokens=budget)


def check(prompt: Context, items: Any, format: str, is_fitted: bool, budget: int) -> None:
    thought = 0  # what goes back with messages of a history, and is none of their texts
    if is_fitted:
        conversation, inputs = conversation_from(items, format), [entry.input for entry in prompt.entries]
        thought = sum(conversation.tokens_beside(at, default_counter()) for at in inputs if at is not None)
    assert problems(prompt.messages) == []
    assert count_tokens(prompt.messages) + thought <= prompt.tokens <= budget
    if format == "openai":  # the others have images and files in results, which count beside the messages
        assert prompt.tokens == count_tokens(prompt.messages) + thought
    assert [entry.message for entry in prompt.entries] == prompt.messages
    shown = {
        step for entry in prompt.entries if entry.kind == "message" and not entry.shortened for step in entry.steps
    }
    assert shown.isdisjoint(item.step for item in prompt.recalled.items)
    if not prompt.messages or not is_fitted:
        return
    sent: Any = prompt.to()
    if format == "responses":
        assert responses_rules.broken_rules(sent) == []
    if format == "anthropic" and sent["messages"]:
        assert anthropic_rules.broken_rules(sent) == []


@pytest.mark.parametrize("format", FORMATS)
def test_every_prompt_is_valid_and_within_its_budget(format: str) -> None:
    @MODERATE
    @given(CHATS[format], st.sampled_from(MAKERS), st.data())
    def prompts(items: Any, maker: str, data: st.DataObject) -> None:
        messages, is_fitted = conversation_from(items, format).messages, maker.startswith("fit")
        cut = data.draw(st.integers(0, len(messages)))
        with open_memory(window_tokens=data.draw(st.integers(20, 400))) as memory:
            for start, end in ((0, cut), (cut, len(messages)), (len(messages), len(messages))):
                if not is_fitted:
                    memory.add_messages(messages[start:end], session="s")
                history = items[:end] if format == "openai" else items
                for budget in data.draw(st.lists(BUDGETS, min_size=1, max_size=2)):
                    try:
                        prompt = built(memory, maker, history, format, budget)
                    except BudgetError as error:
                        assert sum(error.parts.values()) == error.needed > error.budget <= budget
                    else:
                        check(prompt, history, format, is_fitted, budget)
                for text in data.draw(st.lists(texts(200), max_size=2)):
                    memory.scratchpad.observe(text)
                numbers = st.integers(1, max(1, memory.stats().steps))
                for number in data.draw(st.lists(numbers, max_size=2)) if memory.stats().steps else ():
                    memory.correct(number, "No: " + "it is otherwise. " * data.draw(st.integers(0, 40)))

    prompts()
