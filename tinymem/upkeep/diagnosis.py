"""doctor and rebuild: whether a memory's files are sound, and its index made anew from what the journal has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tinymem.archive.archive import EXACT_UP_TO
from tinymem.archive.folders import INDEX, namespace_folder
from tinymem.archive.index import Index
from tinymem.protocols.settings import FILLED, WATERMARK
from tinymem.registry import DEFAULT_STORE, erase_store, known_store, store_from
from tinymem.steps.checks import a_path, a_text, whole_number
from tinymem.stores.journals import open_journal
from tinymem.upkeep.doctor_journal import examine, texts_of
from tinymem.upkeep.findings import REBUILD, Diagnosis, Finding

__all__ = ["doctor", "rebuild"]

SAMPLE = 200  # passages that are looked up in the index
LONGEST = 600.0  # seconds that looking at the index may take


def doctor(
    path: str | Path,
    namespace: str = "default",
    *,
    store: str = DEFAULT_STORE,
    sample: int = SAMPLE,
    timeout: float = LONGEST,
) -> Diagnosis:
    """Whether the files of a memory are sound: the journal, its full-text index, and the index in `store`.

    All of the journal is read; of the index, its ids and a `sample` of so many passages. The index is read in a process
    of its own, since a damaged one can end the process that reads it, or never answer: after `timeout` seconds it is
    given up. Nothing is repaired, no embedder is needed, and the memory can be in use, but for the index: while another
    process holds it, that is a finding, too.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The ladder is behind the shed."))
    >>> diagnosis = doctor(folder)
    >>> diagnosis.sound, diagnosis.counts["steps"]
    (True, 1)

    Raises NotAMemoryError when there is none, and InputError for a store that does not exist.
    """
    known_store(a_text("store", store))
    whole_number("sample", sample)
    folder = namespace_folder(a_path("path", path), namespace, create=False)
    counts, findings = examine(folder)
    if "in_index" in counts:
        findings += _of_index(folder, store, sample, timeout)
    return Diagnosis(tuple(findings), counts)


def rebuild(path: str | Path, namespace: str = "default", *, store: str = DEFAULT_STORE) -> int:
    """Make the index of a memory anew from the vectors in its journal; how many it got. Nothing is embedded.

    The old index is deleted unread. A full-text index that is damaged is made anew, too. A memory that is so small that
    it never had an index gets none: it is searched exactly. A store in memory has nothing to be made anew.

    >>> import tempfile
    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> folder = tempfile.mkdtemp()
    >>> with HierarchicalMemory(folder) as memory:
    ...     step = memory.add(MessageStep("user", "The ladder is behind the shed."))
    >>> rebuild(folder)
    0

    Raises NotAMemoryError when there is none, InputError for a store that does not exist, StorageError where another
    process holds the index or the store fails.
    """
    known_store(a_text("store", store))
    folder = namespace_folder(a_path("path", path), namespace, create=False)
    with closing(open_journal(folder, create=False)) as journal:
        journal.renew_terms(texts_of)
        if not journal.setting(FILLED) and journal.last_passage() < EXACT_UP_TO // 2:
            return 0
        erase_store(store, folder / INDEX)
        with closing(store_from(store, folder / INDEX)) as opened:
            if getattr(opened, "in_memory", False):
                return 0
            journal.keep({WATERMARK: "0"})
            return Index(journal, folder / INDEX, lambda: opened).renew()


def _of_index(folder: Path, store: str, sample: int, timeout: float) -> list[Finding]:
    """What a process of its own finds about the index, or what becomes of that process."""
    command = [sys.executable, "-m", "tinymem.upkeep.doctor_index", str(folder), store, str(sample)]
    paths = os.pathsep.join(path for path in sys.path if path)  # a checkout that is not installed, too
    try:
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return [Finding(f"the index gave no answer within {timeout:g} seconds", REBUILD)]
    if done.returncode == 0:
        return [Finding(*found) for found in json.loads(done.stdout.decode().splitlines()[-1])]
    return [Finding(f"reading the index {_end_of(done)}", REBUILD)]


def _end_of(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"ended the process that did so ({signal.Signals(-done.returncode).name})"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return f"failed: {said[-1] if said else f'status {done.returncode}'}"
