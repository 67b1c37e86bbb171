"""From a name to an adapter: `"static"`, `"minilm"`, `"chroma"`, `"chroma:http://host:8000"`.

What stands before the first colon is the adapter, what stands behind is its own business. Third parties add adapters
with an entry point, a callable that takes what stands behind the colon::

    [project.entry-points."tinymem.embedders"]
    mine = "my_package:MyEmbedder.from_name"      # from_name(argument: str) -> Embedder

    [project.entry-points."tinymem.stores"]
    mine = "my_package:MyStore.from_name"         # from_name(argument: str, path: Path) -> VectorStore

    [project.entry-points."tinymem.summarizers"]
    mine = "my_package:MySummarizer.from_name"    # from_name(argument: str) -> Summarizer

    [project.entry-points."tinymem.changes"]
    mine = "my_package:MyTracker.from_name"       # from_name(argument: str) -> ChangeTracker
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

from tinymem.embedders.objects import ObjectEmbedder
from tinymem.errors import InputError
from tinymem.protocols import ChangeTracker, Embedder, Embeds, Summarizer, Summarizes, VectorStore
from tinymem.steps.checks import to_path
from tinymem.summarizers.writing import FunctionSummarizer

__all__ = [
    "DEFAULT_EMBEDDER",
    "DEFAULT_STORE",
    "DEFAULT_TRACKER",
    "NO_TRACKER",
    "check_store_spec",
    "embedder_from",
    "embedder_names",
    "erase_store",
    "is_in_memory",
    "store_from",
    "store_names",
    "summarizer_from",
    "summarizer_names",
    "to_shared_store",
    "tracker_from",
    "tracker_names",
]  # fmt: skip

DEFAULT_EMBEDDER, DEFAULT_STORE, DEFAULT_TRACKER = "static", "chroma", "coding"  # of a new memory
NO_TRACKER = "none"  # of a memory whose steps take nothing back
SHARED_STORE = "exact"  # of a memory in a database: hosts do not see each other's files
EMBEDDERS = "tinymem.embedders"
STORES = "tinymem.stores"
SUMMARIZERS = "tinymem.summarizers"
CHANGES = "tinymem.changes"

# The shipped ones work in a fresh clone, with nothing installed, and cannot be replaced by somebody's entry point.
_SHIPPED = {
    EMBEDDERS: {
        "hashing": "tinymem.embedders.hashing:HashingEmbedder.from_name",
        "minilm": "tinymem.embedders.onnx:MiniLMEmbedder.from_name",
        "openai": "tinymem.embedders.openai:OpenAIEmbedder.from_name",
        "sentence-transformers": "tinymem.embedders.sentence_transformers:SentenceTransformerEmbedder.from_name",
        "static": "tinymem.embedders.static:StaticEmbedder.from_name",
    },
    STORES: {
        "chroma": "tinymem.stores.chroma.store:ChromaStore.from_name",
        "exact": "tinymem.stores.exact:ExactStore.from_name",
    },
    SUMMARIZERS: {
        "extractive": "tinymem.summarizers.extractive:ExtractiveSummarizer.from_name",
        "openai": "tinymem.summarizers.chat:ChatSummarizer.from_name",
    },
    CHANGES: {"coding": "tinymem.coding.tracker:CodingTracker.from_name"},
}

_T = TypeVar("_T")


def embedder_from(spec: str | Embedder | Embeds) -> Embedder:
    """Return the embedder that `spec` names, `spec` itself if it is one, or one made of its method `embed(text)`.

    Raises:
        InputError: No adapter has that name, or the object has neither the methods of `tinymem.protocols.Embedder` nor
            an `embed` (`tinymem.embedders.objects`).

    >>> embedder_from("hashing:64").dimensions
    64
    """
    if not isinstance(spec, str):
        if not isinstance(spec, type) and _lacking(spec, Embedder) and callable(getattr(spec, "embed", None)):
            return ObjectEmbedder(cast(Embeds, spec))
        return _checked(spec, Embedder, "embedder")  # type: ignore[type-abstract]
    load, argument = _resolve(EMBEDDERS, "embedder", spec)
    return _checked(load(argument), Embedder, f"{spec!r}, the embedder")  # type: ignore[type-abstract]


def store_from(spec: str | VectorStore, path: Path | str) -> VectorStore:
    """Return the store that `spec` names, with its files (if any) in the folder `path`, or `spec` itself if it is one.

    Raises:
        InputError: No adapter has that name, or the object lacks a method of `tinymem.protocols.VectorStore`.
    """
    if not isinstance(spec, str):
        return _checked(spec, VectorStore, "store")  # type: ignore[type-abstract]
    load, argument = _resolve(STORES, "store", spec)
    return _checked(load(argument, to_path("path", path)), VectorStore, f"{spec!r}, the store")  # type: ignore[type-abstract]


def erase_store(name: str, path: Path) -> bool:
    """Delete the files of the store `name` in the folder `path` without opening them, since they may be damaged.

    Returns:
        False if the adapter cannot do so, or has no files there.

    Raises:
        InputError: No adapter has that name.
        StorageError: The files are in use.
    """
    load, argument = _resolve(STORES, "store", name)
    erase = getattr(getattr(load, "__self__", None), "erase", None)  # from_name is a method of the adapter's class
    return erase is not None and bool(erase(argument, path))


def is_in_memory(spec: str | VectorStore) -> bool:
    """Tell if the vectors of the store that `spec` is, or names, are in memory only."""
    if isinstance(spec, str):
        spec = getattr(_resolve(STORES, "store", spec)[0], "__self__", None)  # type: ignore[assignment]
    return bool(getattr(spec, "in_memory", False))


def check_store_spec(spec: str | VectorStore) -> str | VectorStore:
    """Return `spec`, if it is a store or the name of one: it is opened when it is first needed, but checked at once."""
    if isinstance(spec, str) and spec.partition(":")[0] in _entries_with(STORES, spec):
        return spec
    return store_from(spec, "")


def to_shared_store(spec: str | VectorStore) -> str | VectorStore:
    """Return the store of a memory in a database: one in memory, instead of the default one.

    Raises:
        InputError: The store has files, which other hosts do not see.
    """
    if spec == DEFAULT_STORE:
        return SHARED_STORE
    if not is_in_memory(check_store_spec(spec)):
        raise InputError("a memory in a database searches exactly, in the memory of each process: leave store= out")
    return spec


def summarizer_from(spec: str | Summarizer | Summarizes) -> Summarizer:
    """Return the summarizer for `spec`: a name such as `"openai:gpt-4o-mini"`, a summarizer, or `steps -> str`.

    Raises:
        InputError: No adapter has that name, or the object is no function and lacks a method of
            `tinymem.protocols.Summarizer`.

    >>> summarizer_from("extractive").name
    'extractive'
    """
    if not isinstance(spec, str):
        if not isinstance(spec, type) and _lacking(spec, Summarizer) and callable(spec):
            return FunctionSummarizer(spec)
        return _checked(spec, Summarizer, "summarizer")  # type: ignore[type-abstract]
    load, argument = _resolve(SUMMARIZERS, "summarizer", spec)
    return _checked(load(argument), Summarizer, f"{spec!r}, the summarizer")  # type: ignore[type-abstract]


def tracker_from(spec: str | ChangeTracker) -> ChangeTracker:
    """Return what keeps track of changes by its name, as `"coding"`, or `spec` itself if it is that.

    Raises:
        InputError: No adapter has that name, or the object lacks a method of `tinymem.protocols.ChangeTracker`.
    """
    if not isinstance(spec, str):
        return _checked(spec, ChangeTracker, "changes")  # type: ignore[type-abstract]
    load, argument = _resolve(CHANGES, "tracker of changes", spec)
    return _checked(load(argument), ChangeTracker, f"{spec!r}, the tracker")  # type: ignore[type-abstract]


def embedder_names() -> list[str]:
    """Names of the embedders at hand, shipped and installed."""
    return sorted(_entries(EMBEDDERS))


def store_names() -> list[str]:
    """Names of the stores at hand, shipped and installed."""
    return sorted(_entries(STORES))


def summarizer_names() -> list[str]:
    """Names of the summarizers at hand, shipped and installed."""
    return sorted(_entries(SUMMARIZERS))


def tracker_names() -> list[str]:
    """Names of what keeps track of changes at hand, shipped and installed."""
    return sorted(_entries(CHANGES))


def _shipped(group: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, group) for name, value in _SHIPPED[group].items()}


def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)} | _shipped(group)


def _entries_with(group: str, spec: str) -> dict[str, EntryPoint]:
    """The shipped adapters if `spec` names one, else all: finding the others reads a file of each installed package."""
    shipped = _shipped(group)
    return shipped if spec.partition(":")[0] in shipped else _entries(group)


def _resolve(group: str, kind: str, spec: str) -> tuple[Any, str]:
    """The callable of the adapter that `spec` names, and the argument behind the colon."""
    name, _, argument = spec.partition(":")
    entries = _entries_with(group, spec)
    if name not in entries:
        close = get_close_matches(name, entries, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"there is no {kind} {name!r}{hint} (known: {', '.join(sorted(entries))})")
    return entries[name].load(), argument


def _checked(candidate: object, protocol: type[_T], what: str) -> _T:
    if isinstance(candidate, type):
        raise InputError(f"{what} is the class {candidate.__name__}: give an object of it, {candidate.__name__}(...)")
    if missing := _lacking(candidate, protocol):
        raise InputError(f"{what} of type {type(candidate).__name__} lacks {', '.join(missing)} (tinymem.protocols)")
    return cast(_T, candidate)


def _lacking(candidate: object, protocol: type) -> list[str]:
    """Names of the protocol that `candidate` has not got."""
    # Not isinstance: before Python 3.12 it calls the properties, and one may load a model.
    wanted = sorted(name for name in vars(protocol) if not name.startswith("_"))
    return [name for name in wanted if not hasattr(type(candidate), name) and not hasattr(candidate, name)]
