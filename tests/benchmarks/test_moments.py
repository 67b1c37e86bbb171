"""benchmarks.moments, and its memories of many sessions, benchmarks.harness.moments."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import benchmarks.moments
from benchmarks.harness.data import Haystack, Unit
from benchmarks.harness.moments import archive, generated, open_session, read_moments, recorded, sessions_of
from benchmarks.harness.summary import read_summary
from benchmarks.moments import loops, run
from benchmarks.moments.run import figures, scored
from tinymem import HierarchicalMemory
from tinymem.errors import InputError

SAMPLE = Path(benchmarks.moments.__file__).with_name("sample.json")


@pytest.mark.parametrize("spread", [False, True])
def test_a_kind_stands_among_other_sessions_once_and_its_correction_in_the_middle(spread: bool) -> None:
    moments = read_moments(SAMPLE)
    (kind,) = moments.kinds
    sessions = sessions_of(kind, generated(moments.words, 8, "a"), spread)
    said = [message["content"] for session in sessions for message in session]
    facts = [text for text in kind.texts if text not in ("Noted.", "")]
    assert len(facts) == 7 and all(said.count(text) == 1 for text in facts)
    assert len(sessions) == (9 if spread else 10) and sessions[4 if spread else 5] == kind.later
    assert sessions_of(kind, generated(moments.words, 8, "a"), spread) == sessions


def test_a_session_that_asks_has_its_turns_in_the_memory(tmp_path: Path) -> None:
    moments = read_moments(SAMPLE)
    with HierarchicalMemory(tmp_path, namespace="bench") as memory:
        archive(memory, sessions_of(moments.kinds[0], generated(moments.words, 2, "a")))
        for place, prompt in enumerate(moments.nothing):
            open_session(memory, prompt, f"asks-{place}", moments.words)
        counts = [len(list(memory.history(f"asks-{place}"))) for place in range(len(moments.nothing))]
    assert counts == [3, 0, 2]  # a turn with a call, nothing, and a turn


def test_pieces_of_recorded_runs_are_of_other_repositories() -> None:
    units = Unit("user", "first"), Unit("user", "second"), Unit("tool", "done", tool_call_id="c1")
    runs = [Haystack(f"coder:{name}/1", units, ("a", "b", "c"), ()) for name in ("mine", "yours")]
    pieces = recorded(runs, 5, "a", but="mine")
    assert len(pieces) == 5 and {message["role"] for piece in pieces for message in piece} == {"user"}
    with pytest.raises(InputError, match="mine"):
        recorded(runs[:1], 1, "a", but="mine")


def test_what_is_no_file_of_moments_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"kinds": {"a": {}}}', "utf-8")
    with pytest.raises(InputError, match=r"other\.json is not a file of moments"):
        read_moments(tmp_path / "other.json")


def test_the_needed_text_is_found_and_what_is_shared_with_it_counted() -> None:
    moments = read_moments(SAMPLE)
    need, texts = moments.kinds[0].needs[0], moments.kinds[0].texts
    old, new = "Parcels to the islands leave at 14:20.", "From now on parcels to the islands leave at 13:55."
    blocks = f"# {old}\n{new}\n", f"# {new}\n{old}", f"# {old}", f"# {old} (perhaps outdated by #7)\n{new}", ""
    answers = [scored(need, block, texts, len) for block in blocks]
    assert [answer.is_found for answer in answers] == [True, True, False, True, False]
    assert [answer.is_stale for answer in answers] == [True, False, True, False, False]
    assert [answer.needed for answer in answers] == [len(new), len(new), 0, len(new), 0]
    nothing = figures([scored(moments.nothing[0], block, texts, len) for block in ("12345", "")])["nothing"]
    assert nothing["acknowledgement"]["blocks"] == 1 and nothing["acknowledgement"]["tokens"] == 5


def test_prompts_of_made_up_and_recorded_memories_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs.jsonl"
    units = [
        {"id": "u0", "speaker": "user", "text": "Bake bread."},
        {"id": "u1", "speaker": "assistant", "text": "Ok."},
    ]
    call = {"id": "c1", "name": "Bash", "arguments": "{}"}
    units += [{"id": "u2", "speaker": "assistant", "text": "", "tool_calls": [call]}]  # type: ignore[dict-item]
    runs.write_text(json.dumps({"id": "coder:there/1", "units": units, "queries": []}), "utf-8")
    out = tmp_path / "moments.summary.json"
    run.main(["--recorded", str(runs), "--sessions", "6", "--out", str(out)])
    assert "| recorded | foreign | 1 |" in capsys.readouterr().out
    record = read_summary(out)
    made = record["fillers"]["made up"]
    assert made["needs"]["direct"] | {"tokens": 0, "needed": 0, "stale": 0} == {
        "prompts": 1, "blocks": 1, "tokens": 0, "found": 1, "needed": 0, "stale": 0, "corrected": 1,
    }  # fmt: skip
    assert {style: sums["prompts"] for style, sums in made["nothing"].items()} == {
        "acknowledgement": 1, "arithmetic": 1, "in session": 1,
    }  # fmt: skip


def test_what_is_needed_in_a_loop_stands_in_one_result_far_back() -> None:
    for world in loops.WORLDS.values():
        said: list[str] = []
        needs = 0
        for messages, need in loops.run_of(world, 100, Random(1)):
            if need is not None:
                (place,) = [place for place, text in enumerate(said) if need.line in text]
                assert place < len(said) - loops.BACK and need.said in (messages[0]["content"], messages[-1]["content"])
                needs += 1
            said.append(messages[1]["content"])
        assert needs == 2


@pytest.mark.slow
def test_every_way_to_build_a_prompt_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "loops.summary.json"
    loops.main(["--steps", "61", "--budgets", "3000", "--seeds", "1", "--out", str(out)])
    assert "| `context(words)` | 1 of 1 | 1 of 1 |" in capsys.readouterr().out
    found = read_summary(out)["found"]
    assert {way for world in found.values() for way in world["3000"]} == {*loops.WAYS}
