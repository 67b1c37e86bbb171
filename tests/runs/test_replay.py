"""Replays of recorded runs: what is counted is what a policy would have sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import tinymem as tinymem  # the fixture
from hypothesis import given, settings
from hypothesis import strategies as st

from tinymem import keep_last_n_steps, replay
from tinymem.errors import InputError
from tinymem.messages import count_tokens, steps_from_messages
from tinymem.messages.tokens import PER_REPLY, count_message, default_counter
from tinymem.runs import PRICES, Figures, Prices, Run
from tinymem.runs.replays.billing import prices_from
from tinymem.runs.replays.needles import DISTANCE, Needles
from tinymem.runs.replays.policies import MAKERS, WHOLE, Setting

FLAT = Prices(0.1, 1.25, minimum=0)
Message = dict[str, Any]


def call(number: int, **arguments: str) -> Message:
    function = {"name": "read", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def result(number: int, text: str) -> Message:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def run_of(outputs: list[str], typed: dict[int, str] | None = None) -> list[Message]:
    """A task, and a call with each of these outputs; the calls in `typed` type something."""
    messages: list[Message] = [{"role": "user", "content": "Find the leak."}]
    for at, output in enumerate(outputs):
        messages += [call(at, path=(typed or {}).get(at, "x")), result(at, output)]
    return messages


def figures_of(messages: list[Message], **options: Any) -> dict[str, Figures]:
    found = replay([Run("run", steps_from_messages(messages))], prices=FLAT, **options)
    return {one.policy: one for one in found.figures}


OUTPUTS = st.lists(st.text("ab \n", max_size=300), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(OUTPUTS)
def test_the_whole_history_costs_what_a_hand_counts(outputs: list[str]) -> None:
    messages = run_of(outputs)
    calls = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    sent = [sum(count_message(message) for message in messages[:at]) for at in calls]
    cached = [0, *sent[:-1]]
    found = figures_of(messages, policies=[WHOLE])[WHOLE]
    assert (found.calls, found.tokens, found.cached) == (len(calls), sum(sent) + PER_REPLY * len(calls), sum(cached))
    fresh = found.tokens - found.cached
    assert found.bill == pytest.approx(0.1 * found.cached + 1.25 * fresh)


@settings(max_examples=6, deadline=None)
@given(OUTPUTS, st.sampled_from([300, 1000]))
@pytest.mark.parametrize("name", ["token_budget", "summarize_strategy", "semantic_pruning", "context", "fit"])
def test_a_prompt_is_never_over_its_budget(name: str, outputs: list[str], budget: int) -> None:
    steps = steps_from_messages(run_of(outputs))
    policy = MAKERS[name](Setting(budget, 50, default_counter(), "hashing"))
    for step in steps:
        policy.add([step])
        assert sum(piece.tokens for piece in policy.prompt()) + PER_REPLY <= budget
    policy.close()


def test_the_prompts_of_a_run_without_a_session_go_on() -> None:
    messages = run_of([f"lot {number} holds {7 * number} crates of pears " * 9 for number in range(60)])
    found = figures_of(messages, policies=["context"], budgets=[1_500])["context"]
    assert 2 * found.cached > found.tokens


def test_a_needle_is_visible_where_the_prompt_holds_it() -> None:
    filler = [f"line {at} of a long output without anything in it. " * 60 for at in range(8)]
    messages = run_of(["The key is vault_key_77 here.", *filler], {7: "vault_key_77", 8: "x"})
    found = figures_of(messages, strategies={"last": keep_last_n_steps(2)}, budgets=[4_000], policies=["context"])
    assert {name: (one.needed, one.visible) for name, one in found.items()} == {
        WHOLE: (1, 1.0), "last": (1, 0.0), "context": (1, 1.0),
    }  # fmt: skip


def test_what_is_near_or_everywhere_or_its_own_is_no_needle() -> None:
    needles = Needles()
    said = [("tool", "See src/old.py."), ("tool", "far_away_name"), ("tool", "far_away_name")]
    said += [("tool", "far_away_name"), ("tool", "far_away_name"), ("assistant", "own_words_here")]
    for role, text in said:
        needles.add({"role": role, "content": text}, DISTANCE)
    needles.add({"role": "tool", "content": "near_by_name"}, 10)
    typed = call(1, text="src/old.py far_away_name own_words_here near_by_name")
    assert needles.copied(typed) == ["src/old.py"]


def test_prices_have_names_and_ratios() -> None:
    assert prices_from("openai") == PRICES["openai"] and prices_from("2:1:3") == Prices(0.5, 1.5)
    assert prices_from("1:0:1") == Prices(0, 1), "a cache may be free"


@pytest.mark.parametrize("prices", ["cheap", "1:0:0", "1:nan:1", "1:1"])
def test_prices_that_no_bill_can_be_made_of_are_refused_in_words(prices: str) -> None:
    with pytest.raises(InputError, match="only a cached token may cost nothing"):
        prices_from(prices)


def test_the_command_prints_a_table_and_json(tinymem: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_of(["word " * 300] * 6)), encoding="utf-8")
    options = ["--budget", "2000", "--policy", "token_budget", "--policy", "context"]
    assert "whole history" in tinymem("replay", str(file), *options).out
    done = tinymem("replay", str(file), *options, "--json")
    means = json.loads(done.out)["means"]
    assert [one["policy"] for one in means] == [WHOLE, "token_budget", "context"]
    assert means[0]["share"] == 1
    assert count_tokens(run_of(["word " * 300] * 6)) > means[1]["tokens"] / means[1]["calls"]
