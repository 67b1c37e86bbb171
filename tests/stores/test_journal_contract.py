"""The contract of journals, over each engine; what is special to one is tested beside this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from contract import unit_vectors
from contract.samples import HOSTILE
from journal_rows import embed, row

from tinymem.archive.rows import uncut
from tinymem.errors import ClosedError, FormatError, InputError
from tinymem.protocols import Journal, MessageRow, PassageRow, StepNote, SummaryRow
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME, REWRITES
from tinymem.stores.filter import Beginning, Filter
from tinymem.stores.sqlite.journal import SqliteJournal

OpenJournal = Callable[[str], Journal]

SENTENCES = ["The build fails on Windows.", "A grandmother bakes apple pie.", "Windows need cleaning, the big windows."]


@pytest.fixture(params=["sqlite", "postgres", "pooler"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> OpenJournal:
    """Open the journal of a name, and make it if there is none."""
    if request.param == "sqlite":
        return lambda name: SqliteJournal(tmp_path / f"{name}.db")
    server, test = request.getfixturevalue(request.param), uuid4()
    from tinymem.stores.postgres.journal import PostgresJournal

    return lambda name: PostgresJournal(server.url(), f"{test} {name}")


def put(journal: Journal, numbers: Sequence[int]) -> bool:
    """Give the journal a passage, `SENTENCES[number]`, of each of these steps, and its vector."""
    with journal.together():
        is_kept = cut(journal, numbers)
        if is_kept:
            embed(journal, unit_vectors(3)[[number % 3 for number in numbers]])
    return is_kept


def cut(journal: Journal, numbers: Sequence[int]) -> bool:
    """Give the journal the passages without vectors."""
    texts = [SENTENCES[number % len(SENTENCES)] for number in numbers]
    passages = [PassageRow(0, 0, len(text), "message", False, text) for text in texts]
    return journal.put_passages(numbers, [*zip(numbers, passages, strict=True)])


def test_keeps_steps(open_journal: OpenJournal) -> None:
    """Steps come back as they went in, in order, by number and by id, after opening again too."""
    with closing(open_journal("keeps")) as journal:
        assert (journal.rows(), journal.end(), journal.next_number(), uncut(journal, 9)) == ([], 0, 1, [])
        rows = [row(1, session="a", speaker="Ana"), row(2, milestone=True), row(4, window=False)]
        journal.add(rows[:2])
        journal.add(rows[2:])
    with closing(open_journal("keeps")) as journal:
        assert journal.rows() == rows
        assert journal.rows(1, 1) == rows[1:2]
        assert journal.steps([4, 9, 1]) == {1: rows[0].record, 4: rows[2].record}
        assert journal.numbers(["id-4", "nobody", "id-1"]) == {"id-1": 1, "id-4": 4}
        assert (journal.end(), journal.next_number()) == (rows[2].position + rows[2].tokens, 5)


def test_refuses_what_is_there(open_journal: OpenJournal) -> None:
    """A batch with an id or a number that is there is an InputError, and nothing of it is written."""
    with closing(open_journal("refuses")) as journal:
        journal.add([row(1)])
        for bad in (replace(row(3), id="id-1"), replace(row(1), id="other")):
            with pytest.raises(InputError):
                journal.add([row(2), bad])
        put(journal, [1])
        journal.delete({1: [SENTENCES[1]]})
        with pytest.raises(InputError):
            journal.add([row(1)])  # nobody would make its passages
        assert journal.rows() == []


def test_refuses_what_cannot_be_stored(open_journal: OpenJournal) -> None:
    """A lone surrogate and a number of over 64 bits are InputErrors; any text else is stored and searched."""
    with closing(open_journal("hostile")) as journal:
        for bad in (replace(row(1), id="\ud83d"), replace(row(1), number=1 << 64)):
            with pytest.raises(InputError):
                journal.add([bad])
        texts = [text.encode("utf-8", "replace").decode() for text in HOSTILE.values()]
        journal.add([replace(row(number), record=text) for number, text in enumerate(texts, 1)])
        assert [row.record for row in journal.rows()] == texts
        for text in texts:
            journal.search_text(text)


def test_gives_no_number_twice(open_journal: OpenJournal) -> None:
    """Numbers and passage ids of what was deleted are not given again, not after opening again either."""
    with closing(open_journal("numbers")) as journal:
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        last = journal.last_passage()
        journal.delete({2: [SENTENCES[2]]})
    with closing(open_journal("numbers")) as journal:
        assert journal.next_number() == 3
        journal.maintenance.go_on_from(10)
        journal.maintenance.go_on_from(5)
        assert journal.next_number() == 10
        journal.add([row(10)])
        put(journal, [10])
        assert journal.last_passage() > last, "passage ids only grow"


def test_finds_steps(open_journal: OpenJournal) -> None:
    """Steps are found by type, session, speaker and time, the newest first where these are asked for."""
    with closing(open_journal("finds")) as journal:
        kinds = ["system_prompt", "message", "task", "message", "message"]
        journal.add([row(n, type=kind, session="ab"[n % 2]) for n, kind in enumerate(kinds, 1)])
        assert [row.number for row in journal.rows(0, 2, before=5, type="message", newest=True)] == [4, 2]
        assert [row.number for row in journal.rows(session="a", newest=True)] == [4, 2]
        assert [(row.number, row.record) for row in journal.rows(1, before=4, texts=False)] == [(2, ""), (3, "")]
        assert journal.matching(Filter()) == [1, 2, 3, 4, 5]
        assert journal.matching(Filter(type="message", session="a")) == [2, 4]
        assert journal.matching(Filter(since=_at(102), until=_at(104))) == [2, 3, 4]
        assert journal.matching(Filter(before=_at(102))) == [1]
        assert [row.number for row in journal.rows(2, 9, session="b")] == [3, 5]


def test_finds_labels_and_beginnings(open_journal: OpenJournal) -> None:
    """Steps are found by their labels, gone with them, and by the beginning of their session's name."""
    with closing(open_journal("labels")) as journal:
        ann, old = ("user", '"ann"'), ("age", "7")
        sessions = ("team/a", "team/b", "team", None, "teal/*")
        labels: list[Sequence[tuple[str, str]]] = [[ann, old], [ann], [old], [], []]
        rows = enumerate(zip(sessions, labels, strict=True), 1)
        journal.add([row(n, session=session, labels=some) for n, (session, some) in rows])
        for some, steps in (([ann], [1, 2]), ([ann, old], [1]), ([("user", "7")], [])):
            assert journal.matching(Filter(labels=tuple(some))) == steps
        assert journal.matching(Filter(session="team/b", labels=(ann,))) == [2]
        found = [journal.matching(Filter(session=Beginning(name))) for name in ("team/", "tea")]
        assert found == [[1, 2], [1, 2, 3, 5]] and journal.matching(Filter(session="teal/*")) == [5]
        assert [row.number for row in journal.rows(session=Beginning("team/"), newest=True)] == [2, 1]
        journal.delete({1: []})
        assert journal.matching(Filter(labels=(ann,))) == [2]


def test_finds_corrections(open_journal: OpenJournal) -> None:
    """Corrected steps are found with what corrects them, by id, until either is gone."""
    with closing(open_journal("corrections")) as journal:
        journal.add([row(1), row(2), row(3, labels=[("corrects", f'"{row(1).id}"'), ("corrects", '"none"')])])
        journal.add([row(4, labels=[("corrects", f'"{row(1).id}"'), ("corrects", f'"{row(3).id}"')])])
        assert sorted(journal.corrections()) == [(1, 3), (1, 4), (3, 4)]
        journal.delete({3: []})
        assert journal.corrections() == [(1, 4)]


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def test_keeps_the_window(open_journal: OpenJournal) -> None:
    """Steps leave the window once, are shown shortened, and come back."""
    with closing(open_journal("window")) as journal:
        journal.add([row(n) for n in range(1, 5)])
        assert journal.rows(window=False) == [], "all steps are in the window"
        assert journal.set_window([1, 2], {}, {3: "short", 2: "gone"}) == [1, 2]
        assert journal.set_window([2], {}) == []
        assert [(row.number, row.view) for row in journal.rows(window=True)] == [(3, "short"), (4, None)]
        journal.set_window([], {1: "back"})
        assert [(row.number, row.view) for row in journal.rows(window=True)][:2] == [(1, "back"), (3, "short")]
        assert [row.number for row in journal.rows(window=False)] == [2]
        assert journal.setting(REWRITES) is None
        journal.set_milestones([2, 4], True)
        assert [row.number for row in journal.rows() if row.milestone] == [2, 4]
        assert journal.setting(REWRITES) == "1"


def test_notes_when_steps_left(open_journal: OpenJournal) -> None:
    """Steps have the time when they left the window, and none while they are in it."""
    with closing(open_journal("left")) as journal:
        journal.add([row(1), row(2), row(3, window=False, archived=55.5)])
        assert [row.archived for row in journal.rows()] == [None, None, 55.5]
        journal.set_window([1, 2], {})
        times = [row.archived or 0 for row in journal.rows()][:2]
        assert min(times) > 1e9, f"steps that leave have the time, not {times}"
        journal.set_window([], {2: None})
        assert [row.archived is None for row in journal.rows()] == [False, True, False]


def test_keeps_messages(open_journal: OpenJournal) -> None:
    """Messages are kept once, with their steps, and outlive them; they are found and counted by what they say."""
    rows = [MessageRow("a", 1, 1, True), MessageRow("a", 2, 2, False), MessageRow("b", 1, 2, True)]
    with closing(open_journal("messages")) as journal:
        journal.add([row(1), row(2)])
        journal.messages.put(rows)
        journal.messages.put([MessageRow("a", 1, 2, False)])
        assert sorted(journal.messages.find(["b", "a", "nobody"], 9)) == rows
        assert sorted(journal.messages.find({"a", "b"}, 1)) == [rows[0], rows[2]]
        assert journal.messages.count(["a", "b", "nobody"]) == {"a": 2, "b": 1}
        assert (journal.messages.find([], 9), journal.messages.count([])) == ([], {})
        assert journal.messages.page(("", 0), 2) == rows[:2] and journal.messages.page(rows[0][:2], 9) == rows[1:]
        journal.delete({1: []})
    with closing(open_journal("messages")) as journal:
        assert journal.messages.page(("", 0), 9) == rows


def test_keeps_settings(open_journal: OpenJournal) -> None:
    """Settings are replaced, or stay where they must not be; they are there after opening again."""
    with closing(open_journal("settings")) as journal:
        journal.keep({"one": "1", "two": ""})
        journal.keep({"one": "2", "three": "3"}, replace=False)
    with closing(open_journal("settings")) as journal:
        assert [journal.setting(key) for key in ("one", "two", "three", "four")] == ["1", "", "3", None]


def test_keeps_summaries(open_journal: OpenJournal) -> None:
    """Of two summaries of the same steps the first is kept."""
    with closing(open_journal("summaries")) as journal:
        rows = [SummaryRow(1, 3, "s", "one"), SummaryRow(4, 6, None, "two")]
        assert journal.summaries.put(rows) == 2
        assert journal.summaries.put([SummaryRow(3, 9, None, "late")]) == 0
        assert journal.summaries.all() == rows


def test_writes_all_or_nothing(open_journal: OpenJournal) -> None:
    """Writes made together are there for others at the end, all of them, or none if something fails."""
    with closing(open_journal("together")) as journal, closing(open_journal("together")) as other:
        with journal.together():
            journal.add([row(1)])
            with journal.together():
                journal.keep({"key": "value"})
            assert (other.rows(), other.setting("key")) == ([], None)
        assert (len(other.rows()), other.setting("key")) == (1, "value")

        def failing() -> None:
            with journal.together():
                journal.add([row(2)])
                raise InputError("on purpose")

        with pytest.raises(InputError):
            failing()
        assert (len(journal.rows()), len(other.rows())) == (1, 1)


def test_reads_one_state(open_journal: OpenJournal) -> None:
    """A snapshot and a reader see one state while others write; the version changes when somebody else has written."""
    with closing(open_journal("state")) as journal, closing(open_journal("state")) as other:
        before = journal.version()
        journal.add([row(1)])
        assert journal.version() == before
        with journal.snapshot(), journal.reading() as reader:
            assert len(journal.rows()) == 1
            other.add([row(2)])
            assert (len(journal.rows()), len(reader.rows())) == (1, 1)
        assert len(journal.rows()) == 2
        assert journal.version() != before, "the version changes when somebody else has written"


def test_closes_twice(open_journal: OpenJournal) -> None:
    """Closing twice is no error, and any other call afterwards is a ClosedError."""
    journal = open_journal("closes")
    journal.close()
    journal.close()
    for use in (journal.rows, journal.next_number, lambda: journal.add([row(1)]), lambda: journal.setting("key")):
        with pytest.raises(ClosedError):
            use()


def test_makes_passages(open_journal: OpenJournal) -> None:
    """Passages of a step are kept once, and embedded once, in order, with vectors of half precision."""
    with closing(open_journal("passages")) as journal:
        journal.add([row(1), row(2, milestone=True)])
        journal.keep({EMBEDDER: "e"})
        assert journal.waiting_tokens() == 14
        assert journal.counts()["waiting_steps"] == 2
        assert [step.number for step in uncut(journal, 1)] == [1] and uncut(journal, 9) == journal.rows()
        assert not cut(journal, [1, 3]), "passages of a step that is not there are not kept"
        assert cut(journal, [1]) and not cut(journal, [1]) and cut(journal, [2]), "a step is cut once"
        assert (uncut(journal, 9), journal.passages(), journal.counts()["passages"]) == ([], [], 0)
        one, two = journal.passages(lacking="e")
        assert (journal.passages(0, 1, lacking="e"), journal.passages(one.id, lacking="e")) == ([one], [two])
        assert (one.step, one.part, one.start, one.end, one.kind, two.milestone) == (1, 0, 0, 30, "message", True)
        assert (one.vector, journal.waiting_tokens()) == (b"", 14)
        vectors = unit_vectors(3)
        assert not journal.put_vectors([one.id], vectors[:1], "other", "other"), "another embedder is in use"
        assert journal.put_vectors([one.id], vectors[:1], "e", "e")
        assert (journal.passages(lacking="e"), journal.waiting_tokens()) == ([two], 7)
        assert journal.put_vectors([one.id, two.id, two.id + 99], vectors[[2, 1, 0]], "e", "e")
        halves = vectors.astype("<f2")
        assert [row.vector for row in journal.passages()] == [halves[0].tobytes(), halves[1].tobytes()], "made once"
        assert (journal.passages(lacking="e"), journal.waiting_tokens()) == ([], 0)
        assert [row.id for row in journal.passages(one.id, 1)] == [two.id]
        assert [passage[:5] for passage in journal.passages(step=2)] == [(two.id, 2, 0, 0, len(SENTENCES[2]))]
        assert (journal.last_passage(), journal.passages_until(one.id), journal.passages_until(99)) == (two.id, 1, 2)
        counts = {"steps": 2, "window_steps": 2, "waiting_steps": 0, "tokens": 14, "window_tokens": 14, "passages": 2}
        assert journal.counts() == counts
        assert journal.maintenance.size() > 0


def test_finds_words(open_journal: OpenJournal) -> None:
    """Passages are found by their words, the best first, embedded or not."""
    with closing(open_journal("words")) as journal:
        journal.add([row(n) for n in range(4)][1:])
        put(journal, [1, 2])
        one, two = (passage.id for passage in journal.passages())
        assert journal.search_text("nobody").ids.tolist() == []
        ids, scores, *_ = journal.search_text("Which GRANDMOTHERS bake?")
        assert ids.tolist() == [one]
        assert (str(ids.dtype), str(scores.dtype)) == ("int64", "float32")
        assert cut(journal, [3])
        three = journal.passages(lacking=journal.setting(EMBEDDER) or "")[0].id
        ids, scores, *_ = journal.search_text("windows")
        assert ids.tolist() == [two, three]
        assert (np.diff(scores) <= 0).all() and (scores > 0).all(), f"the best score comes first, not {scores}"
        assert journal.search_text("windows", np.array([one, three])).ids.tolist() == [three]
        assert len(journal.search_text("windows", np.array([], np.int64)).ids) == 0
        before = journal.search_text("windows")
        embed(journal, unit_vectors(1))
        assert journal.search_text("windows").scores.tolist() == before.scores.tolist(), "a vector changes nothing"


def test_forgets(open_journal: OpenJournal) -> None:
    """Deleted steps are gone with all that was made of them; the rest stays; half of a step is never deleted."""
    with closing(open_journal("forgets")) as journal:
        journal.add([row(1), row(2), row(3)])
        put(journal, [1, 2])
        journal.summaries.put([SummaryRow(1, 2, None, "both"), SummaryRow(3, 3, None, "three")])
        assert not journal.delete({1: [SENTENCES[1]], 2: []}), "a step is not deleted without its passages"
        assert len(journal.rows()) == 3
        assert journal.delete({1: [SENTENCES[1]], 3: []}), "the steps are deleted"
        assert ([row.number for row in journal.rows()], journal.summaries.all()) == ([2], [])
        assert [passage.step for passage in journal.passages()] == [2]
        assert len(journal.search_text("grandmother").ids) == 0
        assert len(journal.search_text("windows").ids) == 1
        assert journal.setting(REWRITES) == "1"
        journal.maintenance.scrub()


def test_reindexes(open_journal: OpenJournal) -> None:
    """Vectors of another embedder stand beside those in use, and replace them once all are there, and not before."""
    with closing(open_journal("reindexes")) as journal:
        journal.keep({EMBEDDER: "old"})
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        one, two = (passage.id for passage in journal.passages(lacking="new"))
        old, vectors = [passage.vector for passage in journal.passages()], -unit_vectors(2)
        assert journal.put_vectors([one], vectors[:1], "new", "old")
        assert [passage.id for passage in journal.passages(lacking="new")] == [two]
        assert journal.passages(two, lacking="new") == []
        assert not journal.maintenance.switch("new", "name"), "a passage has no new vector yet"
        assert [passage.vector for passage in journal.passages()] == old
        assert journal.put_vectors([two], vectors[1:], "new", "old")
        assert journal.maintenance.switch("new", "name"), "all passages have new vectors"
        assert [passage.vector for passage in journal.passages()] == [half.tobytes() for half in vectors.astype("<f2")]
        assert [journal.setting(key) for key in (EMBEDDER, EMBEDDER_NAME)] == ["new", "name"]
        assert not journal.put_vectors([one], vectors[:1], "third", "old"), "it was reindexed meanwhile"
        assert journal.put_vectors([one], vectors[:1], "third", "new")
        assert journal.maintenance.switch("new", "other name"), "what was begun is given up"
        assert len(journal.passages(lacking="third")) == 2
        assert journal.setting(EMBEDDER_NAME) == "other name"


def test_checks_itself_and_makes_words_and_passages_again(open_journal: OpenJournal) -> None:
    with closing(open_journal("checks")) as journal:
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        upkeep = journal.maintenance
        assert (upkeep.check_files(), upkeep.check_terms()) == ([], (2, None))
        upkeep.clear_passages()
        assert (upkeep.check_terms(), journal.passages(), len(uncut(journal, 9))) == ((0, None), [], 2)
        put(journal, [1, 2])
        assert upkeep.check_terms() == (2, None) and len(journal.passages()) == 2
        assert isinstance(journal.damaged("a test"), FormatError), "damage is a FormatError"


def test_keeps_notes_of_steps(open_journal: OpenJournal) -> None:
    """Notes come by their steps and their keys, in order, and go with their steps, or with all passages."""

    def note(step: int, key: str, place: int = 0) -> StepNote:
        return StepNote(step, place, key, bytes([step, 0, 255]))

    notes = [note(1, "a"), note(1, "b", 1), note(2, "", 0), note(3, "a")]
    with closing(open_journal("notes")) as journal, closing(open_journal("other")) as other:
        for place in (journal, other):
            for number in range(1, 4):
                place.add([row(number)])
        assert journal.put_passages([1, 2, 3], [], notes) and other.put_passages([1, 2, 3], [], [note(1, "a")])
        assert not journal.put_passages([1], [], notes)  # somebody was first
        assert journal.notes_of([]) == journal.notes_with([]) == journal.notes_with(["c"]) == []
        assert journal.notes_of([3, 1]) == [notes[at] for at in (0, 1, 3)]
        assert journal.notes_with(["a", ""]) == [notes[at] for at in (0, 2, 3)]
        assert journal.delete({1: []})
        assert journal.notes_with(["a", "b"]) == notes[3:] and other.notes_with(["a"]) == [note(1, "a")]
        journal.maintenance.clear_passages()
        assert not journal.notes_of([2, 3]) and other.notes_of([1])
