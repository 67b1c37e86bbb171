"""Names of adapters, resolved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tinymem.embedders import HashingEmbedder, StaticEmbedder
from tinymem.errors import InputError
from tinymem.registry import (
    embedder_from,
    store_from,
    summarizer_from,
    summarizer_names,
)
from tinymem.steps.types import Step
from tinymem.stores import ChromaStore, ExactStore
from tinymem.summarizers import ExtractiveSummarizer


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
