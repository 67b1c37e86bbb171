"""The journal's part of `doctor`: the file itself, its full-text index, and whether every step and passage is whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tinymem.archive.indexing.notes import Notes, read_notes
from tinymem.errors import FormatError, StepError, StorageError
from tinymem.protocols import FiledStep, Journal
from tinymem.protocols.settings import EMBEDDER, MADE
from tinymem.recall.passages import slices
from tinymem.steps.serialization import load_step
from tinymem.upkeep.examination.findings import AGAIN, REBUILD, REINDEX, RESTORE, Finding

__all__ = ["examine", "texts_of"]

FAULTS = 3  # faults of a kind that are named
COUNTS = ("steps", "passages", "terms", "dimensions", "in_index")
_NUMBER = re.compile("[0-9]{1,18}")


def examine(open_journal: Callable[[], Journal], index: Path | None = None) -> tuple[dict[str, int], list[Finding]]:
    """Count the contents of a journal, and of the index in a folder as noted there; find the journal's faults.

    The journal is closed then.
    """
    counts: dict[str, int] = {}
    findings: list[Finding] = []
    try:
        with closing(open_journal()) as journal:
            for look in (_files, _terms, _vectors, _steps, _settings):
                try:
                    findings += look(journal, counts)
                except StorageError as error:
                    findings.append(_failure(error))
            if index is not None:
                _count_index(journal, counts, read_notes(index))
    except StorageError as error:
        findings.append(_failure(error))
    return {name: counts[name] for name in COUNTS if name in counts}, list(dict.fromkeys(findings))


def _count_index(journal: Journal, counts: dict[str, int], notes: Notes | None) -> None:
    """Count the passages that the index should hold, if there should be one that may be looked at."""
    is_due = journal.any_archived() and counts.get("passages")
    if not journal.is_read_only and (notes is not None or is_due):  # stores write when they are opened
        counts["in_index"] = journal.passages_until(notes.passage if notes is not None else 0)


def _failure(error: StorageError) -> Finding:
    return Finding(str(error), RESTORE if isinstance(error, FormatError) else AGAIN)


def _files(journal: Journal, counts: dict[str, int]) -> list[Finding]:
    found = journal.maintenance.check_files()
    return [Finding(f"the journal is damaged: {'; '.join(found)}", RESTORE)] if found else []


def _terms(journal: Journal, counts: dict[str, int]) -> list[Finding]:
    counts["terms"], fault = journal.maintenance.check_terms()
    return [] if fault is None else [Finding(f"the full-text index is damaged: {fault}", REBUILD)]


def _vectors(journal: Journal, counts: dict[str, int]) -> list[Finding]:
    """Check that all vectors have the same length and only finite numbers."""
    found = journal.maintenance.check_vectors()
    usual = max(found.lengths, key=lambda length: found.lengths[length], default=0)
    counts["passages"], counts["dimensions"] = sum(found.lengths.values()), usual // 2
    wrong = counts["passages"] - (0 if usual % 2 else found.lengths.get(usual, 0))
    wrongs = {
        f"have a vector of another length than {usual // 2}": wrong,
        "have a vector with numbers that are not finite": found.not_finite,
        "have identifiers cut short": found.cut_short,
        "have no vector, though later ones have": max(0, journal.passages_until(1 << 62) - counts["passages"]),
    }
    return [Finding(f"{count} passages {what}", REINDEX) for what, count in wrongs.items() if count]


def _steps(journal: Journal, counts: dict[str, int]) -> list[Finding]:
    """Check that every step can be read, and has the right passages."""
    counts["steps"] = 0
    faults: dict[str, list[str]] = {}
    with journal.snapshot():
        orphans = journal.maintenance.count_orphans()
        made = journal.setting(MADE) or ""
        uncut = int(made) if _NUMBER.fullmatch(made) else 1
        for step in _filed(journal):
            counts["steps"] += 1
            if fault := _fault(step, was_made=step.number < uncut):
                faults.setdefault(fault, []).append(f"#{step.number}")
    findings = [Finding(f"{_some(numbers)} {fault}", RESTORE) for fault, numbers in faults.items()]
    if orphans:
        findings.append(Finding(f"{orphans} passages are of steps that are not in the journal", RESTORE))
    return findings


def _filed(journal: Journal) -> Iterator[FiledStep]:
    after = 0
    while steps := journal.maintenance.filed(after):
        yield from steps
        after = steps[-1].number


def _fault(filed: FiledStep, was_made: bool) -> str | None:
    try:
        step = load_step(filed.record)
    except StepError:
        return "cannot be read"
    except FormatError as error:
        return f"cannot be read: {error}"
    if step.id != filed.id:
        return "is filed under another step's id"
    parts = step.parts()
    for place in filed.places:
        if place.part >= len(parts) or not 0 <= place.start <= place.end <= len(parts[place.part].text):
            return "has passages that are not in its text"
    if was_made and parts and not filed.places:
        return "is found by no recall: it has no passages"
    return None


def _some(numbers: list[str]) -> str:
    more = f" and {len(numbers) - FAULTS} more: each" if len(numbers) > FAULTS else ""
    return f"step {', '.join(numbers[:FAULTS])}{more}"


def _settings(journal: Journal, counts: dict[str, int]) -> list[Finding]:
    """Check that the journal's notes of its progress are possible."""
    findings = []
    made = journal.setting(MADE)
    if made and not _NUMBER.fullmatch(made):
        findings.append(Finding(f"{made!r:.80} does not say which steps have passages", RESTORE))
    if journal.setting(EMBEDDER) is None:  # "": none could be reached yet
        findings.append(Finding("it is not said which embedder the vectors are of", RESTORE))
    return findings


def texts_of(filed: FiledStep) -> Sequence[str]:
    """Return the texts of the passages of a step."""
    return slices(load_step(filed.record), ((place.part, place.start, place.end) for place in filed.places))
