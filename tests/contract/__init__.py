"""Contracts of adapters, as checks for their tests: this folder can be copied beside those of another package.

Each check is a function that raises AssertionError with what was expected and what came. No test framework is needed;
with pytest, one test for each check::

    import pytest
    from contract import EMBEDDER_CHECKS, STORE_CHECKS

    @pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
    def test_my_embedder(check):
        check(MyEmbedder())

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check, tmp_path):
        check(lambda: MyStore(tmp_path))

`check_embedder`, `check_store` and `check_summarizer` run them all. Exact search with numpy is what stores are measured
against.
"""

from .embedders import EMBEDDER_CHECKS, check_embedder
from .samples import exact_neighbours, unit_vectors
from .stores import STORE_CHECKS, check_persistence, check_store
from .summarizers import SUMMARIZER_CHECKS, check_summarizer

__all__ = [
    "EMBEDDER_CHECKS",
    "STORE_CHECKS",
    "SUMMARIZER_CHECKS",
    "check_embedder",
    "check_persistence",
    "check_store",
    "check_summarizer",
    "exact_neighbours",
    "unit_vectors",
]
