"""Benchmarks of the medium tier: what they claim stands in the text, and their tables are true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.data import Question, read_haystacks
from benchmarks.harness.methods import Setup
from benchmarks.harness.scoring import score
from benchmarks.recall import tiers
from tinymem.messages.tokens import default_counter

DAYS = 30
WORDS = "yes no perhaps anyway then indeed still again so now truly really maybe".split()  # noqa: SIM905
STEPS = 2 + len(WORDS)


def written(path: Path) -> Path:
    """A conversation of many sessions; each tells one fact in its own words."""
    units: list[dict[str, Any]] = []
    for day in range(DAYS):
        fact = f"The boiler in house {day} was set to {40 + day} degrees by Ann, because room {day * 3} was cold."
        chatter = [f"Well, {word}, I can only say that we shall see what comes of it." for word in WORDS]
        said = ["Good morning!", fact, *chatter]
        units += [
            {"id": f"u{STEPS * day + at}", "speaker": "Ben", "text": text, "session": f"s{day}",
             "timestamp": f"2025-03-{1 + day:02}T10:{at:02}:00Z"}
            for at, text in enumerate(said)
        ]  # fmt: skip
    queries = [{"id": f"q{d}", "text": f"How warm is house {d}?", "type": "odd" if d % 2 else "even",
                "gold": [f"u{STEPS * d + 1}"]} for d in range(0, DAYS, 5)]  # fmt: skip
    path.write_text(json.dumps({"id": "talk", "units": units, "queries": queries}) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "talk.jsonl")


# -- the medium tier --------------------------------------------------------------------------------------------------


def test_lines_of_summaries_claim_what_stands_in_the_units(data: Path, tmp_path: Path) -> None:
    [haystack] = read_haystacks(data)
    method = tiers.Tiers(Setup(tmp_path / "memory", embedder="hashing:64", store="exact"))
    method.add(haystack.units)
    question = Question("Who is Zoe?", None)
    both, without = method.with_episodes(question, 1_500, 0.6), method.with_episodes(question, 1_500, 0)
    assert default_counter().count(both.text) <= 1_500 and both.text.startswith("<episodes-")
    assert without == method.recall(question, 1_500)
    told = both.text[: both.text.index("<recalled-")]
    claims = [claim for claim in both.claims if haystack.units[claim.place].text[claim.start : claim.end] in told]
    facts = {claim.place for claim in claims if "boiler" in haystack.units[claim.place].text}
    assert len(facts) > 5
    day = next(day for day in range(0, DAYS, 5) if STEPS * day + 1 in facts)
    units = [{"id": f"u{c.place}", "start": c.start, "end": c.end} for c in claims]
    rows = score([haystack], {("talk", f"q{day}", 1_500): {"budget": 1_500, "text": told, "units": units}})[1_500]
    assert [row.value for row in rows if not row.missing] == [1], "a summary's line counts as evidence"
    method.close()
