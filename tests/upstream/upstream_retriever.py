"""langchain-tests' suite for retrievers, over TinymemRetriever."""

from __future__ import annotations

from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from tinymem import HierarchicalMemory
from tinymem.integrations.langchain import TinymemRetriever

MEMORY = HierarchicalMemory(embedder="static", store="exact")
for at in range(12):
    MEMORY.add_message("user", f"Host {at} of staging listens on port {18_000 + at}.")


class TestTinymemRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return TinymemRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": MEMORY}

    @property
    def retriever_query_example(self) -> str:
        return "Which port does staging listen on?"
