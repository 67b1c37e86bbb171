"""The contract of journals.

Each check is given a function that opens the journal of a name, and makes it if there is none. Its name is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from tinymem.errors import ClosedError, InputError
from tinymem.protocols import LinkedMessage, LinkRow, SummaryRow
from tinymem.protocols.settings import REWRITES, WINDOW_CHANGES
from tinymem.stores.filter import Filter
from tinymem.testing.passages import PASSAGE_CHECKS
from tinymem.testing.rows import SENTENCES, OpenJournal, put, row
from tinymem.testing.samples import HOSTILE, require, require_equal, require_error

__all__ = ["JOURNAL_CHECKS", "check_journal"]


def keeps_steps(open_journal: OpenJournal) -> None:
    """Steps come back as they went in, in order, by number and by id, after opening again too."""
    with closing(open_journal("keeps")) as journal:
        require_equal((journal.rows(), journal.end(), journal.next_number(), journal.mark), ([], 0, 1, (1, 0)))
        rows = [row(1, session="a", speaker="Ana"), row(2, milestone=True), row(4, window=False)]
        journal.add(rows[:2])
        journal.add(rows[2:])
    with closing(open_journal("keeps")) as journal:
        require_equal(journal.rows(), rows)
        require_equal(journal.rows(1, 1), rows[1:2])
        require_equal(journal.steps([4, 9, 1]), {1: rows[0].record, 4: rows[2].record})
        require_equal((journal.numbers(["id-4", "nobody", "id-1"]), journal.held(["id-2", "x"])), ([1, 4], {"id-2"}))
        require_equal((journal.end(), journal.next_number()), (rows[2].position + rows[2].tokens, 5))


def refuses_what_is_there(open_journal: OpenJournal) -> None:
    """A batch with an id or a number that is there is an InputError, and nothing of it is written."""
    with closing(open_journal("refuses")) as journal:
        journal.add([row(1)])
        for bad in (replace(row(3), id="id-1"), replace(row(1), id="other")):
            require_error(InputError, partial(journal.add, [row(2), bad]))
        put(journal, [1])
        journal.delete({1: [SENTENCES[1]]})
        require_error(InputError, lambda: journal.add([row(1)]))  # nobody would make its passages
        require_equal(journal.rows(), [])


def refuses_what_cannot_be_stored(open_journal: OpenJournal) -> None:
    """A lone surrogate and a number of over 64 bits are InputErrors; any text else is stored and searched."""
    with closing(open_journal("hostile")) as journal:
        for bad in (replace(row(1), id="\ud83d"), replace(row(1), number=1 << 64)):
            require_error(InputError, partial(journal.add, [bad]))
        texts = [text.encode("utf-8", "replace").decode() for text in HOSTILE.values()]
        journal.add([replace(row(number), record=text) for number, text in enumerate(texts, 1)])
        require_equal([row.record for row in journal.rows()], texts)
        for text in texts:
            journal.search_text(text)


def gives_no_number_twice(open_journal: OpenJournal) -> None:
    """Numbers and passage ids of what was deleted are not given again, not after opening again either."""
    with closing(open_journal("numbers")) as journal:
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        last = journal.last_passage()
        journal.delete({2: [SENTENCES[2]]})
    with closing(open_journal("numbers")) as journal:
        require_equal(journal.next_number(), 3)
        journal.go_on_from(10)
        journal.go_on_from(5)
        require_equal(journal.next_number(), 10)
        journal.add([row(10)])
        put(journal, [10])
        require(journal.last_passage() > last, "passage ids only grow")


def finds_steps(open_journal: OpenJournal) -> None:
    """Steps are found by type, session, speaker and time, the newest first where these are asked for."""
    with closing(open_journal("finds")) as journal:
        kinds = ["system_prompt", "message", "task", "message", "message"]
        journal.add([row(n, type=kind, session="ab"[n % 2]) for n, kind in enumerate(kinds, 1)])
        require_equal([row.number for row in journal.newest(2, 5, type="message")], [4, 2])
        require_equal([row.number for row in journal.newest(9, session="a")], [4, 2])
        require_equal([journal.newest_of(session) for session in ("a", "b", None)], ["id-4", "id-5", None])
        require_equal([row.number for row in journal.outline(1, 3)], [2, 3])
        require_equal(journal.matching(Filter()), [1, 2, 3, 4, 5])
        require_equal(journal.matching(Filter(type="message", session="a")), [2, 4])
        require_equal(journal.matching(Filter(since=_at(102), until=_at(104))), [2, 3, 4])
        require_equal(journal.matching(Filter(before=_at(102))), [1])
        require_equal([row.number for row in journal.rows(2, 9, session="b")], [3, 5])
        require_equal((journal.count("message"), journal.count("action")), (3, 0))
        tallied = [(kind.session, kind.type, kind.steps, kind.first, kind.last) for kind in journal.tally()]
        require_equal(
            tallied[1:], [("a", "message", 2, 102, 104), ("b", "task", 1, 103, 103), ("b", "message", 1, 105, 105)]
        )


def finds_labels_and_beginnings(open_journal: OpenJournal) -> None:
    """Steps are found by their labels, gone with them, and by the beginning of their session's name."""
    with closing(open_journal("labels")) as journal:
        ann, old = ("user", '"ann"'), ("age", "7")
        sessions = ("team/a", "team/b", "team", None, "teal/*")
        labels: list[Sequence[tuple[str, str]]] = [[ann, old], [ann], [old], [], []]
        rows = enumerate(zip(sessions, labels, strict=True), 1)
        journal.add([row(n, session=session, labels=some) for n, (session, some) in rows])
        require_equal(
            [journal.matching(Filter(labels=tuple(some))) for some in ([ann], [ann, old], [("user", "7")])],
            [[1, 2], [1], []],
        )
        require_equal(journal.matching(Filter(session="team/b", labels=(ann,))), [2])
        found = [journal.matching(Filter(session=f"{name}*")) for name in ("team/", "tea")]
        require_equal(found, [[1, 2], [1, 2, 3, 5]])
        require_equal([row.number for row in journal.newest(9, session="team/*")], [2, 1])
        journal.delete({1: []})
        require_equal(journal.matching(Filter(labels=(ann,))), [2])


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def keeps_the_window(open_journal: OpenJournal) -> None:
    """Steps leave the window once, are shown shortened, and come back."""
    with closing(open_journal("window")) as journal:
        journal.add([row(n) for n in range(1, 5)])
        require(not journal.any_archived(), "all steps are in the window")
        require_equal(journal.set_window([1, 2], {}, {3: "short", 2: "gone"}), [1, 2])
        require_equal(journal.set_window([2], {}), [])
        require_equal([(row.number, row.view) for row in journal.window()], [(3, "short"), (4, None)])
        journal.set_window([], {1: "back"})
        require_equal([(row.number, row.view) for row in journal.window()][:2], [(1, "back"), (3, "short")])
        require_equal([row.number for row in journal.window(after=3)], [4])
        require(journal.any_archived(), "step 2 has left the window")
        require_equal((journal.setting(WINDOW_CHANGES), journal.setting(REWRITES)), ("3", None))
        journal.set_milestones([2, 4], True)
        require_equal([row.number for row in journal.rows() if row.milestone], [2, 4])
        require_equal((journal.setting(WINDOW_CHANGES), journal.setting(REWRITES)), ("3", "1"))


def notes_when_steps_left(open_journal: OpenJournal) -> None:
    """Steps have the time when they left the window, and none while they are in it."""
    with closing(open_journal("left")) as journal:
        journal.add([row(1), row(2), row(3, window=False, archived=55.5)])
        require_equal([row.archived for row in journal.rows()], [None, None, 55.5])
        journal.set_window([1, 2], {})
        times = [row.archived or 0 for row in journal.rows()][:2]
        require(min(times) > 1e9, f"steps that leave have the time, not {times}")
        journal.set_window([], {2: None})
        require_equal([row.archived is None for row in journal.rows()], [False, True, False])


def keeps_links(open_journal: OpenJournal) -> None:
    """Links are kept once, with their steps, and outlive them; what says the same is found, the newest first."""
    with closing(open_journal("links")) as journal:
        journal.add([row(1), row(2)])
        journal.put_links([LinkRow("a", "same", 1, 1), LinkRow("id-1", "other", 1, 1), LinkRow("id-2", "same", 2, 0)])
        journal.put_links([LinkRow("a", "same", 2, 2)])
        messages = [("a", 1, 1, False), ("id-1", 1, 1, True), ("id-2", 2, 0, True)]
        require_equal(_latest(journal.linked(["id-2", "a", "nobody", "id-1"])), sorted(messages))
        require_equal(journal.linked([]), [])
        require_equal([row.link for row in journal.links()], ["a", "id-1", "id-2"])
        require_equal(journal.links("a", 1), [LinkRow("id-1", "other", 1, 1)])
        require_equal(journal.alike(["same", "none"], 9), {"same": [messages[2], messages[0]]})
        require_equal(journal.alike(["same"], 1), {"same": [messages[2]]})
        journal.delete({1: []})
    with closing(open_journal("links")) as journal:
        require_equal(_latest(journal.linked(["a", "id-1"])), [("a", 1, 1, False), ("id-1", 1, 1, False)])


def _latest(found: Sequence[LinkedMessage]) -> list[LinkedMessage]:
    """The messages in order; where a link comes as an id too, what was kept of it is the later one."""
    return sorted({one.link: one for one in found}.values())


def keeps_settings(open_journal: OpenJournal) -> None:
    """Settings are replaced, or stay where they must not be; they are there after opening again."""
    with closing(open_journal("settings")) as journal:
        journal.keep({"one": "1", "two": ""})
        journal.keep({"one": "2", "three": "3"}, replace=False)
    with closing(open_journal("settings")) as journal:
        require_equal([journal.setting(key) for key in ("one", "two", "three", "four")], ["1", "", "3", None])


def keeps_summaries(open_journal: OpenJournal) -> None:
    """Of two summaries of the same steps the first is kept; summaries of summaries may span them."""
    with closing(open_journal("summaries")) as journal:
        rows = [SummaryRow(1, 1, 3, "s", "one"), SummaryRow(1, 4, 6, None, "two"), SummaryRow(2, 1, 6, None, "both")]
        require_equal(journal.put_summaries(rows), 3)
        require_equal(journal.put_summaries([SummaryRow(1, 3, 9, None, "late")]), 0)
        require_equal(journal.summaries(), rows)


def writes_all_or_nothing(open_journal: OpenJournal) -> None:
    """Writes made together are there for others at the end, all of them, or none if something fails."""
    with closing(open_journal("together")) as journal, closing(open_journal("together")) as other:
        with journal.together():
            journal.add([row(1)])
            with journal.together():
                journal.keep({"key": "value"})
            require_equal((other.rows(), other.setting("key")), ([], None))
        require_equal((len(other.rows()), other.setting("key")), (1, "value"))

        def failing() -> None:
            with journal.together():
                journal.add([row(2)])
                raise InputError("on purpose")

        require_error(InputError, failing)
        require_equal((len(journal.rows()), len(other.rows())), (1, 1))


def reads_one_state(open_journal: OpenJournal) -> None:
    """A snapshot and a reader see one state while others write; the version changes when somebody else has written."""
    with closing(open_journal("state")) as journal, closing(open_journal("state")) as other:
        before = journal.version()
        journal.add([row(1)])
        require_equal(journal.version(), before)
        with journal.snapshot(), journal.reading() as reader:
            require_equal(len(journal.rows()), 1)
            other.add([row(2)])
            require_equal((len(journal.rows()), len(reader.rows())), (1, 1))
        require_equal(len(journal.rows()), 2)
        require(journal.version() != before, "the version changes when somebody else has written")


def closes_twice(open_journal: OpenJournal) -> None:
    """Closing twice is no error, and any other call afterwards is a ClosedError."""
    journal = open_journal("closes")
    journal.close()
    journal.close()
    for use in (journal.rows, journal.next_number, lambda: journal.add([row(1)]), lambda: journal.setting("key")):
        require_error(ClosedError, use)


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
    *PASSAGE_CHECKS,
    keeps_summaries,
    writes_all_or_nothing,
    reads_one_state,
    closes_twice,
)


def check_journal(open_journal: OpenJournal) -> None:
    """Run every check of `JOURNAL_CHECKS`.

    `open_journal` opens the journal of a name, and makes it if there is none; there may be none of any check's name.
    """
    for check in JOURNAL_CHECKS:
        check(open_journal)
