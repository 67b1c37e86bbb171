"""Names of adapters, resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tinymem import registry
from tinymem.embedders import HashingEmbedder, StaticEmbedder
from tinymem.errors import InputError
from tinymem.registry import (
    check_store_spec,
    embedder_from,
    embedder_names,
    is_in_memory,
    store_from,
    store_names,
    summarizer_from,
    summarizer_names,
)
from tinymem.steps.types import Step
from tinymem.stores import ChromaStore, ExactStore
from tinymem.summarizers import ExtractiveSummarizer


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A distribution of somebody else, installed: an embedder, a store, a summarizer, and one that is no adapter."""
    (tmp_path / "somebody.py").write_text(
        "from tinymem.embedders import HashingEmbedder\n"
        "from tinymem.stores import ExactStore\n"
        "def embedder(argument): return HashingEmbedder(int(argument))\n"
        "def store(argument, path): s = ExactStore(); s.argument, s.path = argument, path; return s\n"
        "class Summarizer:\n"
        "    def __init__(self, name): self.name = name\n"
        "    def summarize(self, steps, max_tokens): return ''\n"
        "def nothing(argument): return object()\n",
        "utf-8",
    )
    info = tmp_path / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[tinymem.embedders]\ntheirs = somebody:embedder\nnothing = somebody:nothing\nstatic = somebody:nothing\n"
        "[tinymem.stores]\ntheirs = somebody:store\n"
        "[tinymem.summarizers]\ntheirs = somebody:Summarizer\nnothing = somebody:nothing\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "theirs"


def test_a_name_gives_the_adapter_that_has_it(tmp_path: Path) -> None:
    for spec, kind in {"static": StaticEmbedder, "hashing": HashingEmbedder, "hashing:64": HashingEmbedder}.items():
        embedder = embedder_from(spec)
        assert isinstance(embedder, kind) and embedder.name == spec
    assert isinstance(store_from("exact", tmp_path), ExactStore)
    with closing(store_from("chroma", tmp_path / "chroma")) as store:
        assert isinstance(store, ChromaStore) and (tmp_path / "chroma" / "chroma.sqlite3").exists()
    assert type(summarizer_from("extractive")) is ExtractiveSummarizer
    assert summarizer_names() == ["extractive", "openai"]


def test_a_function_of_steps_is_a_summarizer_named_after_it() -> None:
    def count(steps: list[Step]) -> str:
        return f"{len(steps)} steps"

    summarizer = summarizer_from(count)
    assert summarizer.name.endswith("count") and summarizer.summarize([], 10) == "0 steps"


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: embedder_from("sttic"), "did you mean .*'static'.*known: hashing, .*static"),
    (lambda: embedder_from("sentence_transformers:x"), "did you mean .*sentence-transformers.*known: hashing"),
    (lambda: embedder_from(object()), "object lacks dimensions, embed_documents, .*fingerprint, name"),  # type: ignore[arg-type]
    (lambda: store_from(7, Path()), "lacks clear, close, count"),  # type: ignore[arg-type]
    (lambda: summarizer_from(7), "lacks name, summarize"),  # type: ignore[arg-type]
    (lambda: embedder_from(HashingEmbedder), r"HashingEmbedder\(\.\.\.\)"),  # type: ignore[arg-type]
    (lambda: summarizer_from(ExtractiveSummarizer), r"ExtractiveSummarizer\(\.\.\.\)"),  # type: ignore[arg-type]
    (lambda: embedder_from("static:anything"), "static"),
    (lambda: embedder_from("hashing:many"), "hashing"),
    (lambda: embedder_from("sentence-transformers"), "sentence-transformers"),
    (lambda: embedder_from("minilm:anything"), "minilm"),
    (lambda: store_from("exact:anything", Path()), "exact"),
    (lambda: store_from("chroma:anything", Path()), "chroma"),
    (lambda: summarizer_from("extractive:anything"), "extractive"),
    (lambda: summarizer_from("openai"), "openai"),
]


@pytest.mark.parametrize(("call", "said"), WRONG)
def test_what_is_no_adapter_is_an_error_that_says_what_is_wrong(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_an_installed_plugin_is_found_with_its_argument(plugin: str, tmp_path: Path) -> None:
    assert embedder_from(f"{plugin}:32").dimensions == 32
    store = store_from(f"{plugin}:a:b", tmp_path / "x")
    assert (store.argument, store.path) == ("a:b", tmp_path / "x")  # type: ignore[attr-defined]
    assert summarizer_from(f"{plugin}:a:b").name == "a:b"
    assert plugin in embedder_names() and plugin in store_names() and plugin in summarizer_names()
    assert type(embedder_from("static")) is StaticEmbedder, "a plugin cannot take the name of a shipped adapter"


def test_a_shipped_adapter_is_found_without_a_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", None)  # a call fails
    assert embedder_from("hashing:64").name == "hashing:64"
    assert check_store_spec("exact") == "exact" and is_in_memory("exact")
    assert summarizer_from("extractive").name == "extractive"
    with pytest.raises(TypeError):
        embedder_from("theirs")
