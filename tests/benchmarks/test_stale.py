"""benchmarks.stale: what counts as a stale line or an old fact that was recalled, and as a mark of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stale.run import figures, main
from benchmarks.stale.scoring import facts, lines
from benchmarks.stale.slices import own_words, slices_of

OLD, KEPT = "limit = 100  # rows of a page", "import collections.abc"
READ = f"{KEPT}\n{OLD}\n"
START = READ.index(OLD)


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A run that edits a line which it read."""
    units = [{"id": f"u{n}", "speaker": "tool", "text": text} for n, text in enumerate((READ, "the edit"))]
    query = {"id": "q", "text": "limit?", "type": "needle", "gold": [], "needle": "collections"}
    span = {"unit": "u0", "start": START, "end": START + len(OLD), "text": OLD, "stale": 1}
    written(tmp_path / "run.stale.jsonl", {"id": "h", "spans": [span, {"unit": "u1", "text": OLD, "stale": 1}]})
    return written(tmp_path / "run.jsonl", {"id": "h", "units": units, "queries": [query]})


def answered(data: Path, text: str, *slices: tuple[str, int, int]) -> Path:
    """Results with one line."""
    units = [{"id": unit, "start": start, "end": end} for unit, start, end in slices]
    line = {"haystack": "h", "query": "q", "budget": 100, "text": text, "units": units}
    return written(data.with_name("results.jsonl"), line)


WHOLE = ("u0", 0, len(READ))


@pytest.mark.parametrize(
    ("text", "slices", "is_unmarked"),
    [
        (f"#1 Read:\n{READ}", [WHOLE], True),
        (f"#1 Read:\n{KEPT}\n", [("u0", 0, START)], False),
        (f"#1 Read:\n{READ.strip()} (changed by #2)", [WHOLE], False),
        (f"#1 Read, in an old version:\n{READ}", [WHOLE], False),
        (f"#1 Read:\n{READ}", [], True),  # in the memory's own words it may be of the call
        (f"#1 Edit({OLD}) (outdated)", [], False),
    ],
)
def test_a_line_that_is_gone_is_counted_where_it_is_shown_without_a_mark(
    data: Path, text: str, slices: list[tuple[str, int, int]], is_unmarked: bool
) -> None:
    ((row,),) = lines(data, answered(data, text, *slices)).values()
    assert row.is_unmarked is is_unmarked and (row.unmarked > 0) is is_unmarked
    assert row.found is (WHOLE in slices)


def test_words_before_and_behind_a_slice_are_told_from_those_of_others() -> None:
    texts = {"a": "first thing", "b": "second thing"}
    text = "x first  thing y\nz second thing"
    slices = slices_of(texts, [{"id": "b"}, {"id": "a"}, {"id": "a", "start": 3, "end": 3}], text)
    assert [(one.unit, text[one.first : one.last]) for one in slices] == [("a", "first  thing"), ("b", "second thing")]
    assert own_words(text, slices) == ([("x ", " y"), ("z ", "")], ["x ", " y\nz ", ""])


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A chat in which a fact changes."""
    units = [{"id": f"u{n}", "speaker": "user", "text": f"The capital is {name}."} for n, name in enumerate(NAMES)]
    query: dict[str, Any] = {"id": "q", "text": "capital?", "type": "single", "gold": ["u1"]}
    query |= {"newest": [{"value": NAMES[1], "units": ["u1"]}], "stale": [{"value": NAMES[0], "units": ["u0"]}]}
    return written(tmp_path / "facts.jsonl", {"id": "h", "units": units, "queries": [query]})


NAMES = ("Rome", "Turin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The capital is Rome.\nThe capital is Turin.", (True, True, False)),
        ("The capital is Rome. (outdated by #2)\nThe capital is Turin.", (True, True, True)),
        ("The capital is Turin.", (True, False, True)),
        ("The capital is Rome. (outdated by #2)", (False, True, False)),
    ],
)
def test_a_text_is_clean_with_the_newest_value_and_a_mark_on_what_was_before(
    changed: Path, text: str, expected: tuple[bool, bool, bool]
) -> None:
    slices = [(unit, 0, 99) for unit in ("u0", "u1")]
    ((row,),) = facts(changed, answered(changed, text, *slices)).values()
    assert (row.is_new, row.is_old, row.is_clean) == expected and row.has_old


def test_figures_of_two_results_make_tables(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = answered(data, f"#1 Read:\n{READ}", WHOLE)
    found = figures(data, results)
    assert found == {
        "lines": {"100": {"queries": 1, "unmarked": 1.0, "stale": found["lines"]["100"]["stale"], "needles": 1.0}}
    }
    written(tmp_path / "results.summary.json", {"format": 1, "commit": "abc"})
    out = tmp_path / "stale.summary.json"
    main(["--data", str(data), "--before", str(results), "--after", str(results), "--out", str(out)])
    assert "| run | 100 | 1.000 | 1.000 |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--data", str(data)])
