"""The page on embedders: its code runs, over real HTTP and with real weights, and its figures are the benchmarks'."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from servers import KEY, openai_server

from benchmarks.harness.summary import read_summary
from tinymem import HierarchicalMemory
from tinymem.recall.passages import cut

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "embedders.md"
RESULTS = REPOSITORY / "benchmarks" / "results"
MODEL = "all-MiniLM-L6-v2"  # whose weights a package carries: in place of the name stands their folder


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_code_on_the_page_runs(minilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, spec = "\n".join(blocks()), f"sentence-transformers:{minilm.as_posix()}"
    assert "OpenAIEmbedder(" in code and "EmbedderMismatchError" in code and MODEL in code
    with openai_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        exec(compile(code.replace(MODEL, minilm.as_posix()), str(PAGE), "exec"), {"__name__": "page"})
        assert server.requests
    with HierarchicalMemory("memory") as memory:
        assert memory.stats().embedder == spec and memory.stats().steps == 1


def test_files_that_are_linked_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) >= 2
    assert [link for link in links if "://" not in link and not (PAGE.parent / link).exists()] == []


def test_the_figures_in_the_text_are_those_of_the_benchmark() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    found: dict[str, Any] = {}
    for name in ("minilm", "static"):
        (one,) = read_summary(RESULTS / f"locomo-dev.dense-{name}.summary.json")["sets"]
        found[name] = f"{one['figures']['1024']['recall']:.2f}"
    assert f"MiniLM finds {found['minilm']} of LoCoMo's evidence in 1,024 tokens, `static` {found['static']}" in text


def test_passages_are_as_short_as_the_page_says() -> None:
    assert "800 characters" in PAGE.read_text(encoding="utf-8")
    for text in ("word " * 20_000, "x" * 100_000, "A sentence, and another. " * 30):
        assert max(end - start for start, end in cut(text)) <= 800
