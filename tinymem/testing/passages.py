"""The part of the contract of journals that is about passages: their vectors, terms, and what becomes of them."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from tinymem.errors import FormatError, InputError, TinymemError
from tinymem.protocols import FiledStep, Mark, SummaryRow
from tinymem.protocols.settings import EMBEDDER, EMBEDDER_NAME, REWRITES, WATERMARK, WINDOW_CHANGES
from tinymem.testing.rows import SENTENCES, OpenJournal, put, row
from tinymem.testing.samples import DIMENSIONS, require, require_equal, require_error, unit_vectors

__all__ = ["PASSAGE_CHECKS"]


def makes_passages(open_journal: OpenJournal) -> None:
    """Passages are kept between marks by who comes first, with vectors of half precision."""
    with closing(open_journal("passages")) as journal:
        journal.add([row(1), row(2, milestone=True)])
        journal.keep({EMBEDDER: "e"})
        require_equal((journal.waiting_tokens(), journal.dimensions()), (14, None))
        require_equal(journal.counts()["waiting_steps"], 2)
        require(not put(journal, [1], since=Mark(2, 0)), "passages since another mark are not kept")
        require(not put(journal, [3]), "passages of a step that is not there are not kept")
        require(not put(journal, [1], embedder="other"), "passages of another embedder are not kept")
        require(put(journal, [1], embedder="e") and put(journal, [2]), "passages from the mark on are kept")
        require_equal((journal.mark, journal.waiting_tokens()), ((3, 0), 0))
        one, two = journal.passages()
        require_equal((one.step, one.part, one.start, one.end, one.kind, two.milestone), (1, 0, 0, 30, "message", True))
        halves = unit_vectors(3).astype("<f2")
        require_equal([one.vector, two.vector], [halves[1].tobytes(), halves[2].tobytes()])
        require_equal(journal.dimensions(), DIMENSIONS)
        require_equal(journal.passages(one.id, 1), [two])
        require_equal([tuple(place) for place in journal.places(2)], [(two.id, 2, 0, 0, len(SENTENCES[2]))])
        require_equal(journal.vectors(1), [one.vector])
        require_equal((journal.last_passage(), journal.passages_until(one.id)), (two.id, 1))
        counts = {"steps": 2, "window_steps": 2, "waiting_steps": 0, "tokens": 14, "window_tokens": 14, "passages": 2}
        require_equal(journal.counts(), counts)
        require(set(journal.weights()) == {1, 2} and journal.size() > 0, "every step weighs something")


def takes_turns(open_journal: OpenJournal) -> None:
    """A turn is given back, also after an error; what another one makes meanwhile is kept once."""
    with closing(open_journal("turns")) as journal, closing(open_journal("turns")) as other:
        journal.add([row(1), row(2)])
        with journal.turn(0) as is_ours:
            require(is_ours is True, "the turn is free")
            with other.turn(0) as too:
                require(isinstance(too, bool), "a turn says whether it is ours")
            require(put(journal, [1]), "who has the turn makes passages")
            require(not put(other, [1], since=Mark(1, 0)), "passages are kept once")
            require(put(other, [2]), "nothing rests on the turn")

        def failing() -> None:
            with journal.turn(0):
                raise InputError("on purpose")

        require_error(InputError, failing)
        for each in (other, journal):
            with each.turn(0) as is_ours:
                require(is_ours is True, "the turn is free again")
        require_equal([passage.step for passage in journal.passages()], [1, 2])


def finds_words(open_journal: OpenJournal) -> None:
    """Passages are found by their words, the best first, embedded or waiting."""
    with closing(open_journal("words")) as journal:
        journal.add([row(n) for n in range(4)][1:])
        put(journal, [1, 2])
        one, two = (passage.id for passage in journal.passages())
        require_equal(journal.search_text("nobody").ids.tolist(), [])
        ids, scores, *_ = journal.search_text("Which GRANDMOTHERS bake?")
        require_equal((ids.tolist(), ids.dtype, scores.dtype), ([one], np.int64, np.float32))
        waiting = journal.begin_waiting()
        (three,) = journal.wait(waiting, Mark(4, 0), [SENTENCES[0]])
        require_equal((waiting.since, waiting.until, len(waiting)), ((3, 0), (4, 0), 1))
        ids, scores, *_ = journal.search_text("windows", waiting)
        require_equal(ids.tolist(), [two, three])
        require(bool((np.diff(scores) <= 0).all() and (scores > 0).all()), f"the best score comes first, not {scores}")
        require_equal(journal.search_text("windows", waiting, np.array([one, three])).ids.tolist(), [three])
        require_equal(len(journal.search_text("windows", waiting, np.array([], np.int64)).ids), 0)
        put(journal, [3])
        require_equal(journal.passages(two)[0].id, three)
        require_equal(sorted(journal.search_text("windows", waiting).ids.tolist()), [two, three])  # once


def forgets(open_journal: OpenJournal) -> None:
    """Deleted steps are gone with all that was made of them; the rest stays; half of a step is never deleted."""
    with closing(open_journal("forgets")) as journal:
        journal.add([row(1), row(2), row(3)])
        put(journal, [1, 2])
        journal.put_summaries([SummaryRow(1, 1, 2, None, "both"), SummaryRow(1, 3, 3, None, "three")])
        require(not journal.delete({1: [SENTENCES[1]], 2: []}), "a step is not deleted without its passages")
        require_equal(len(journal.rows()), 3)
        require(journal.delete({1: [SENTENCES[1]], 3: []}), "the steps are deleted")
        require_equal(([row.number for row in journal.rows()], journal.summaries()), ([2], []))
        require_equal([passage.step for passage in journal.passages()], [2])
        require_equal(len(journal.search_text("grandmother").ids), 0)
        require_equal(len(journal.search_text("windows").ids), 1)
        require_equal((journal.setting(REWRITES), journal.setting(WINDOW_CHANGES)), ("1", "1"))
        journal.scrub("this is done", "this stays")


def reindexes(open_journal: OpenJournal) -> None:
    """Vectors of another embedder replace those in use once all are there, and not before."""
    with closing(open_journal("reindexes")) as journal:
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        journal.keep({EMBEDDER: "old", WATERMARK: "2"})
        journal.begin_reindexing("new")
        one, two = journal.to_reindex(9)
        require_equal((one.step, two.step, journal.reindexed()), (1, 2, (0, 2)))
        vectors = -unit_vectors(2)
        journal.put_reindexed("new", [one.id], vectors[:1])
        require_equal((journal.reindexed(), journal.to_reindex(9)), ((1, 2), [two]))
        require(not journal.switch("new", "name"), "a passage has no new vector yet")
        require_error(TinymemError, lambda: journal.put_reindexed("third", [two.id], vectors[1:]))
        journal.put_reindexed("new", [two.id, two.id + 99], vectors)
        require(journal.switch("new", "name"), "all passages have new vectors")
        require_equal(journal.vectors(1), [vectors[0].astype("<f2").tobytes()])
        settings = [journal.setting(key) for key in (EMBEDDER, EMBEDDER_NAME, WATERMARK)]
        require_equal(settings, ["new", "name", "0"])
        journal.begin_reindexing("third")
        journal.stop_reindexing()
        require_error(TinymemError, lambda: journal.put_reindexed("third", [one.id], vectors[:1]))


def checks_itself(open_journal: OpenJournal) -> None:
    """A sound journal has no faults, and its full-text index is not made again."""
    with closing(open_journal("checks")) as journal:
        journal.add([row(1), row(2)])
        put(journal, [1, 2])
        require_equal((journal.check_files(), journal.check_terms(), journal.count_orphans()), ([], (2, None), 0))
        require_equal(journal.check_vectors(), ({2 * DIMENSIONS: 2}, 0, 0))
        filed = journal.filed(limit=1)
        require_equal(filed, [FiledStep(1, "id-1", row(1).record, journal.places(1))])
        require_equal([step.number for step in journal.filed(1)], [2])
        require(not journal.renew_terms(lambda step: [SENTENCES[step.number]]), "a sound index stays as it is")
        require(isinstance(journal.damaged("a test"), FormatError), "damage is a FormatError")


PASSAGE_CHECKS = (makes_passages, takes_turns, finds_words, forgets, reindexes, checks_itself)
