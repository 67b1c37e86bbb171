"""The contract of journals.

Each check is given a function that opens the journal of a name, and makes it if there is none. Its name is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tinymem.errors import ClosedError, FormatError, InputError, TinymemError
from tinymem.protocols import FiledStep, Journal, LinkedMessage, LinkRow, Mark, PassageRow, StepRow, SummaryRow
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME, REWRITES, WATERMARK, WINDOW_CHANGES
from tinymem.testing.samples import DIMENSIONS, HOSTILE, require, unit_vectors

__all__ = ["JOURNAL_CHECKS", "check_journal"]

OpenJournal: TypeAlias = Callable[[str], Journal]

_TEXTS = ["The build fails on Windows.", "A grandmother bakes apple pie.", "Windows need cleaning, the big windows."]


def keeps_steps(open_journal: OpenJournal) -> None:
    """Steps come back as they went in, in order, by number and by id, after opening again too."""
    with closing(open_journal("keeps")) as journal:
        _require_equal((journal.rows(), journal.end(), journal.next_number(), journal.mark), ([], 0, 1, (1, 0)))
        rows = [_row(1, session="a", speaker="Ana"), _row(2, milestone=True), _row(4, window=False)]
        journal.add(rows[:2])
        journal.add(rows[2:])
    with closing(open_journal("keeps")) as journal:
        _require_equal(journal.rows(), rows)
        _require_equal(journal.rows(1, 1), rows[1:2])
        _require_equal(journal.steps([4, 9, 1]), {1: rows[0].record, 4: rows[2].record})
        _require_equal((journal.numbers(["id-4", "nobody", "id-1"]), journal.held(["id-2", "x"])), ([1, 4], {"id-2"}))
        _require_equal((journal.end(), journal.next_number()), (rows[2].position + rows[2].tokens, 5))


def refuses_what_is_there(open_journal: OpenJournal) -> None:
    """A batch with an id or a number that is there is an InputError, and nothing of it is written."""
    with closing(open_journal("refuses")) as journal:
        journal.add([_row(1)])
        for bad in (replace(_row(3), id="id-1"), replace(_row(1), id="other")):
            _require_error(InputError, partial(journal.add, [_row(2), bad]))
        _put(journal, [1])
        journal.delete({1: [_TEXTS[1]]})
        _require_error(InputError, lambda: journal.add([_row(1)]))  # nobody would make its passages
        _require_equal(journal.rows(), [])


def refuses_what_cannot_be_stored(open_journal: OpenJournal) -> None:
    """A lone surrogate and a number of over 64 bits are InputErrors; any text else is stored and searched."""
    with closing(open_journal("hostile")) as journal:
        for bad in (replace(_row(1), id="\ud83d"), replace(_row(1), number=1 << 64)):
            _require_error(InputError, partial(journal.add, [bad]))
        texts = [text.encode("utf-8", "replace").decode() for text in HOSTILE.values()]
        journal.add([replace(_row(number), record=text) for number, text in enumerate(texts, 1)])
        _require_equal([row.record for row in journal.rows()], texts)
        for text in texts:
            journal.search_text(text)


def gives_no_number_twice(open_journal: OpenJournal) -> None:
    """Numbers and passage ids of what was deleted are not given again, not after opening again either."""
    with closing(open_journal("numbers")) as journal:
        journal.add([_row(1), _row(2)])
        _put(journal, [1, 2])
        last = journal.last_passage()
        journal.delete({2: [_TEXTS[2]]})
    with closing(open_journal("numbers")) as journal:
        _require_equal(journal.next_number(), 3)
        journal.go_on_from(10)
        journal.go_on_from(5)
        _require_equal(journal.next_number(), 10)
        journal.add([_row(10)])
        _put(journal, [10])
        require(journal.last_passage() > last, "passage ids only grow")


def finds_steps(open_journal: OpenJournal) -> None:
    """Steps are found by type, session, speaker and time, the newest first where these are asked for."""
    with closing(open_journal("finds")) as journal:
        kinds = ["system_prompt", "message", "task", "message", "message"]
        journal.add([_row(n, type=kind, session="ab"[n % 2]) for n, kind in enumerate(kinds, 1)])
        _require_equal([row.number for row in journal.newest(2, 5, type="message")], [4, 2])
        _require_equal([row.number for row in journal.newest(9, session="a")], [4, 2])
        _require_equal([journal.newest_of(session) for session in ("a", "b", None)], ["id-4", "id-5", None])
        _require_equal([row.number for row in journal.outline(1, 3)], [2, 3])
        _require_equal(journal.matching({}), [1, 2, 3, 4, 5])
        _require_equal(journal.matching({"type": "message", "session": "a"}), [2, 4])
        _require_equal(journal.matching({"since": 102.0, "until": 104.0}), [2, 3, 4])
        _require_equal(journal.matching({"before": 102.0}), [1])
        _require_equal([row.number for row in journal.rows(2, 9, session="b")], [3, 5])
        _require_equal((journal.count("message"), journal.count("action")), (3, 0))
        tallied = [(kind.session, kind.type, kind.steps, kind.first, kind.last) for kind in journal.tally()]
        _require_equal(
            tallied[1:], [("a", "message", 2, 102, 104), ("b", "task", 1, 103, 103), ("b", "message", 1, 105, 105)]
        )


def finds_labels_and_beginnings(open_journal: OpenJournal) -> None:
    """Steps are found by their labels, gone with them, and by the beginning of their session's name."""
    with closing(open_journal("labels")) as journal:
        ann, old = ("user", '"ann"'), ("age", "7")
        sessions = ("team/a", "team/b", "team", None, "teal/*")
        labels: list[Sequence[tuple[str, str]]] = [[ann, old], [ann], [old], [], []]
        rows = enumerate(zip(sessions, labels, strict=True), 1)
        journal.add([_row(n, session=session, labels=some) for n, (session, some) in rows])
        _require_equal([journal.matching({}, some) for some in ([ann], [ann, old], [("user", "7")])], [[1, 2], [1], []])
        _require_equal(journal.matching({"session": "team/b"}, [ann]), [2])
        found = [journal.matching({"session": f"{name}*"}) for name in ("team/", "tea")]
        _require_equal(found, [[1, 2], [1, 2, 3, 5]])
        _require_equal([row.number for row in journal.newest(9, session="team/*")], [2, 1])
        journal.delete({1: []})
        _require_equal(journal.matching({}, [ann]), [2])


def keeps_the_window(open_journal: OpenJournal) -> None:
    """Steps leave the window once, are shown shortened, and come back."""
    with closing(open_journal("window")) as journal:
        journal.add([_row(n) for n in range(1, 5)])
        require(not journal.any_archived(), "all steps are in the window")
        _require_equal(journal.set_window([1, 2], {}, {3: "short", 2: "gone"}), [1, 2])
        _require_equal(journal.set_window([2], {}), [])
        _require_equal([(row.number, row.view) for row in journal.window()], [(3, "short"), (4, None)])
        journal.set_window([], {1: "back"})
        _require_equal([(row.number, row.view) for row in journal.window()][:2], [(1, "back"), (3, "short")])
        _require_equal([row.number for row in journal.window(after=3)], [4])
        require(journal.any_archived(), "step 2 has left the window")
        _require_equal((journal.setting(WINDOW_CHANGES), journal.setting(REWRITES)), ("3", None))
        journal.set_milestones([2, 4], True)
        _require_equal([row.number for row in journal.rows() if row.milestone], [2, 4])
        _require_equal((journal.setting(WINDOW_CHANGES), journal.setting(REWRITES)), ("3", "1"))


def notes_when_steps_left(open_journal: OpenJournal) -> None:
    """Steps have the time when they left the window, and none while they are in it."""
    with closing(open_journal("left")) as journal:
        journal.add([_row(1), _row(2), _row(3, window=False, archived=55.5)])
        _require_equal([row.archived for row in journal.rows()], [None, None, 55.5])
        journal.set_window([1, 2], {})
        times = [row.archived or 0 for row in journal.rows()][:2]
        require(min(times) > 1e9, f"steps that leave have the time, not {times}")
        journal.set_window([], {2: None})
        _require_equal([row.archived is None for row in journal.rows()], [False, True, False])


def keeps_links(open_journal: OpenJournal) -> None:
    """Links are kept once, with their steps, and outlive them; what says the same is found, the newest first."""
    with closing(open_journal("links")) as journal:
        journal.add([_row(1), _row(2)])
        journal.put_links([LinkRow("a", "same", 1, 1), LinkRow("id-1", "other", 1, 1), LinkRow("id-2", "same", 2, 0)])
        journal.put_links([LinkRow("a", "same", 2, 2)])
        messages = [("a", 1, 1, False), ("id-1", 1, 1, True), ("id-2", 2, 0, True)]
        _require_equal(_latest(journal.linked(["id-2", "a", "nobody", "id-1"])), sorted(messages))
        _require_equal(journal.linked([]), [])
        _require_equal([row.link for row in journal.links()], ["a", "id-1", "id-2"])
        _require_equal(journal.links("a", 1), [LinkRow("id-1", "other", 1, 1)])
        _require_equal(journal.alike(["same", "none"], 9), {"same": [messages[2], messages[0]]})
        _require_equal(journal.alike(["same"], 1), {"same": [messages[2]]})
        journal.delete({1: []})
    with closing(open_journal("links")) as journal:
        _require_equal(_latest(journal.linked(["a", "id-1"])), [("a", 1, 1, False), ("id-1", 1, 1, False)])


def _latest(found: Sequence[LinkedMessage]) -> list[LinkedMessage]:
    """The messages in order; where a link comes as an id too, what was kept of it is the later one."""
    return sorted({one.link: one for one in found}.values())


def keeps_settings(open_journal: OpenJournal) -> None:
    """Settings are replaced, or stay where they must not be; they are there after opening again."""
    with closing(open_journal("settings")) as journal:
        journal.keep({"one": "1", "two": ""})
        journal.keep({"one": "2", "three": "3"}, replace=False)
    with closing(open_journal("settings")) as journal:
        _require_equal([journal.setting(key) for key in ("one", "two", "three", "four")], ["1", "", "3", None])


def makes_passages(open_journal: OpenJournal) -> None:
    """Passages are kept between marks by who comes first, with vectors of half precision and token ids."""
    with closing(open_journal("passages")) as journal:
        journal.add([_row(1), _row(2, milestone=True)])
        journal.keep({EMBEDDER: "e"})
        _require_equal((journal.waiting_tokens(), journal.dimensions()), (14, None))
        _require_equal(journal.counts()["waiting_steps"], 2)
        require(not _put(journal, [1], since=Mark(2, 0)), "passages since another mark are not kept")
        require(not _put(journal, [3]), "passages of a step that is not there are not kept")
        require(not _put(journal, [1], embedder="other"), "passages of another embedder are not kept")
        require(_put(journal, [1], embedder="e") and _put(journal, [2]), "passages from the mark on are kept")
        _require_equal((journal.mark, journal.waiting_tokens()), ((3, 0), 0))
        one, two = journal.passages()
        _require_equal(
            (one.step, one.part, one.start, one.end, one.kind, two.milestone), (1, 0, 0, 30, "message", True)
        )
        halves = unit_vectors(3).astype("<f2")
        _require_equal([one.vector, two.vector], [halves[1].tobytes(), halves[2].tobytes()])
        _require_equal((one.tokens, journal.dimensions()), (np.array([1, 2], np.uint16).tobytes(), DIMENSIONS))
        _require_equal(journal.passages(one.id, 1), [two])
        _require_equal([tuple(place) for place in journal.places(2)], [(two.id, 2, 0, 0, len(_TEXTS[2]))])
        _require_equal([tuple(made) for made in journal.vectors(1)], [(one.vector, one.tokens)])
        _require_equal((journal.last_passage(), journal.passages_until(one.id)), (two.id, 1))
        counts = {"steps": 2, "window_steps": 2, "waiting_steps": 0, "tokens": 14, "window_tokens": 14, "passages": 2}
        _require_equal(journal.counts(), counts)
        require(set(journal.weights()) == {1, 2} and journal.size() > 0, "every step weighs something")


def finds_words(open_journal: OpenJournal) -> None:
    """Passages are found by their words, the best first, embedded or waiting."""
    with closing(open_journal("words")) as journal:
        journal.add([_row(n) for n in range(4)][1:])
        _put(journal, [1, 2])
        one, two = (passage.id for passage in journal.passages())
        _require_equal(journal.search_text("nobody")[0].tolist(), [])
        ids, scores = journal.search_text("Which GRANDMOTHERS bake?")
        _require_equal((ids.tolist(), ids.dtype, scores.dtype), ([one], np.int64, np.float32))
        waiting = journal.begin_waiting()
        (three,) = journal.wait(waiting, Mark(4, 0), [_TEXTS[0]])
        _require_equal((waiting.since, waiting.until, len(waiting)), ((3, 0), (4, 0), 1))
        ids, scores = journal.search_text("windows", waiting)
        _require_equal(ids.tolist(), [two, three])
        require(bool((np.diff(scores) <= 0).all() and (scores > 0).all()), f"the best score comes first, not {scores}")
        _require_equal(journal.search_text("windows", waiting, np.array([one, three]))[0].tolist(), [three])
        _require_equal(len(journal.search_text("windows", waiting, np.array([], np.int64))[0]), 0)
        _put(journal, [3])
        _require_equal(journal.passages(two)[0].id, three)
        _require_equal(sorted(journal.search_text("windows", waiting)[0].tolist()), [two, three])  # once


def keeps_summaries(open_journal: OpenJournal) -> None:
    """Of two summaries of the same steps the first is kept; summaries of summaries may span them."""
    with closing(open_journal("summaries")) as journal:
        rows = [SummaryRow(1, 1, 3, "s", "one"), SummaryRow(1, 4, 6, None, "two"), SummaryRow(2, 1, 6, None, "both")]
        _require_equal(journal.put_summaries(rows), 3)
        _require_equal(journal.put_summaries([SummaryRow(1, 3, 9, None, "late")]), 0)
        _require_equal(journal.summaries(), rows)


def forgets(open_journal: OpenJournal) -> None:
    """Deleted steps are gone with all that was made of them; the rest stays; half of a step is never deleted."""
    with closing(open_journal("forgets")) as journal:
        journal.add([_row(1), _row(2), _row(3)])
        _put(journal, [1, 2])
        journal.put_summaries([SummaryRow(1, 1, 2, None, "both"), SummaryRow(1, 3, 3, None, "three")])
        require(not journal.delete({1: [_TEXTS[1]], 2: []}), "a step is not deleted without its passages")
        _require_equal(len(journal.rows()), 3)
        require(journal.delete({1: [_TEXTS[1]], 3: []}), "the steps are deleted")
        _require_equal(([row.number for row in journal.rows()], journal.summaries()), ([2], []))
        _require_equal([passage.step for passage in journal.passages()], [2])
        _require_equal(len(journal.search_text("grandmother")[0]), 0)
        _require_equal(len(journal.search_text("windows")[0]), 1)
        _require_equal((journal.setting(REWRITES), journal.setting(WINDOW_CHANGES)), ("1", "1"))
        journal.scrub("this is done", "this stays")


def writes_all_or_nothing(open_journal: OpenJournal) -> None:
    """Writes made together are there for others at the end, all of them, or none if something fails."""
    with closing(open_journal("together")) as journal, closing(open_journal("together")) as other:
        with journal.together():
            journal.add([_row(1)])
            with journal.together():
                journal.keep({"key": "value"})
            _require_equal((other.rows(), other.setting("key")), ([], None))
        _require_equal((len(other.rows()), other.setting("key")), (1, "value"))

        def failing() -> None:
            with journal.together():
                journal.add([_row(2)])
                raise InputError("on purpose")

        _require_error(InputError, failing)
        _require_equal((len(journal.rows()), len(other.rows())), (1, 1))


def reads_one_state(open_journal: OpenJournal) -> None:
    """A snapshot and a reader see one state while others write; the version changes when somebody else has written."""
    with closing(open_journal("state")) as journal, closing(open_journal("state")) as other:
        before = journal.version()
        journal.add([_row(1)])
        _require_equal(journal.version(), before)
        with journal.snapshot(), journal.reading() as reader:
            _require_equal(len(journal.rows()), 1)
            other.add([_row(2)])
            _require_equal((len(journal.rows()), len(reader.rows())), (1, 1))
        _require_equal(len(journal.rows()), 2)
        require(journal.version() != before, "the version changes when somebody else has written")


def reindexes(open_journal: OpenJournal) -> None:
    """Vectors of another embedder replace those in use once all are there, and not before."""
    with closing(open_journal("reindexes")) as journal:
        journal.add([_row(1), _row(2)])
        _put(journal, [1, 2])
        journal.keep({EMBEDDER: "old", WATERMARK: "2"})
        journal.begin_reindexing("new")
        one, two = journal.to_reindex(9)
        _require_equal((one.step, two.step, journal.reindexed()), (1, 2, (0, 2)))
        vectors, tokens = -unit_vectors(2), [np.array([7], np.uint16)] * 2
        journal.put_reindexed("new", [one.id], vectors[:1], tokens[:1])
        _require_equal((journal.reindexed(), journal.to_reindex(9)), ((1, 2), [two]))
        require(not journal.switch("new", "name"), "a passage has no new vector yet")
        _require_error(TinymemError, lambda: journal.put_reindexed("third", [two.id], vectors[1:], tokens[1:]))
        journal.put_reindexed("new", [two.id, two.id + 99], vectors, tokens)
        require(journal.switch("new", "name"), "all passages have new vectors")
        _require_equal([made.vector for made in journal.vectors(1)], [vectors[0].astype("<f2").tobytes()])
        settings = [journal.setting(key) for key in (EMBEDDER, EMBEDDER_NAME, WATERMARK)]
        _require_equal(settings, ["new", "name", "0"])
        journal.begin_reindexing("third")
        journal.stop_reindexing()
        _require_error(TinymemError, lambda: journal.put_reindexed("third", [one.id], vectors[:1], tokens[:1]))


def checks_itself(open_journal: OpenJournal) -> None:
    """A sound journal has no faults, and its full-text index is not made again."""
    with closing(open_journal("checks")) as journal:
        journal.add([_row(1), _row(2)])
        _put(journal, [1, 2])
        _require_equal((journal.check_files(), journal.check_terms(), journal.count_orphans()), ([], (2, None), 0))
        _require_equal(journal.check_vectors(), ({2 * DIMENSIONS: 2}, 0, 0))
        filed = journal.filed(limit=1)
        _require_equal(filed, [FiledStep(1, "id-1", _row(1).record, journal.places(1))])
        _require_equal([step.number for step in journal.filed(1)], [2])
        require(not journal.renew_terms(lambda step: [_TEXTS[step.number]]), "a sound index stays as it is")
        require(isinstance(journal.damaged("a test"), FormatError), "damage is a FormatError")


def closes_twice(open_journal: OpenJournal) -> None:
    """Closing twice is no error, and any other call afterwards is a ClosedError."""
    journal = open_journal("closes")
    journal.close()
    journal.close()
    for use in (journal.rows, journal.next_number, lambda: journal.add([_row(1)]), lambda: journal.setting("key")):
        _require_error(ClosedError, use)


JOURNAL_CHECKS: tuple[Callable[[OpenJournal], None], ...] = (
    keeps_steps,
    refuses_what_is_there,
    refuses_what_cannot_be_stored,
    gives_no_number_twice,
    finds_steps,
    finds_labels_and_beginnings,
    keeps_the_window,
    notes_when_steps_left,
    keeps_links,
    keeps_settings,
    makes_passages,
    finds_words,
    keeps_summaries,
    forgets,
    writes_all_or_nothing,
    reads_one_state,
    reindexes,
    checks_itself,
    closes_twice,
)


def check_journal(open_journal: OpenJournal) -> None:
    """Run every check of `JOURNAL_CHECKS`.

    `open_journal` opens the journal of a name, and makes it if there is none; there may be none of any check's name.
    """
    for check in JOURNAL_CHECKS:
        check(open_journal)


def _row(number: int, **more: Any) -> StepRow:
    """A step of 7 tokens, a second after the one before it."""
    made = StepRow(
        number, f"id-{number}", "message", None, None, 100.0 + number, 7, 7 * (number - 1), f'{{"n": {number}}}'
    )
    return replace(made, **more)


def _put(journal: Journal, numbers: Sequence[int], since: Mark | None = None, embedder: str | None = None) -> bool:
    """Give the journal a passage, `_TEXTS[number]`, of each of these steps."""
    texts = [_TEXTS[number % len(_TEXTS)] for number in numbers]
    passages = [
        (n, PassageRow(0, 0, len(text), "message", False, text)) for n, text in zip(numbers, texts, strict=True)
    ]
    vectors = unit_vectors(3)[[number % 3 for number in numbers]]
    tokens = [np.array([1, 2], np.uint16)] * len(numbers)
    return journal.put_passages(since or journal.mark, Mark(numbers[-1] + 1, 0), passages, vectors, tokens, embedder)


def _require_equal(found: object, expected: object) -> None:
    require(found == expected, f"expected {expected!r}, and found {found!r}")


def _require_error(kind: type[TinymemError], use: Callable[[], object]) -> None:
    try:
        use()
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}, and there was none")
