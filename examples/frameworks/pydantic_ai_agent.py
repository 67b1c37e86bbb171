"""A Pydantic AI agent with a budget, whose conversations know what others were told.

    pip install "tinymem-agents[pydantic-ai]"
    python examples/frameworks/pydantic_ai_agent.py

The model is a function that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tinymem import HierarchicalMemory
from tinymem.integrations.pydantic_ai import Tinymem


def answer(messages: list[Any], info: Any) -> ModelResponse:
    """Name the port that stands in the request."""
    found = re.search(r"port (\d+)", str(messages))
    return ModelResponse([TextPart(f"It is {found[1]}." if found else "I do not know.")])


with HierarchicalMemory("./memory") as memory:
    agent = Agent(FunctionModel(answer), capabilities=[Tinymem(memory, max_tokens=1_000)])
    agent.run_sync("The Vault server of staging listens on port 18443.", conversation_id="monday")
    print(agent.run_sync("Which port does Vault listen on in staging?", conversation_id="tuesday").output)
