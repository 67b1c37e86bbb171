"""An agent of the OpenAI Agents SDK with a session on disk, whose runs know what other sessions were told.

    pip install "tinymem-agents[openai-agents]"
    python examples/frameworks/openai_agents_session.py

The model is the SDK's scripted one, which only knows its request. Leave it out for OpenAI's.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from agents import Agent, RunConfig, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from agents.testing.model import ModelCall, ModelStep

from tinymem import HierarchicalMemory
from tinymem.integrations.openai_agents import TinymemSession, recalling


def answer(call: ModelCall) -> list[Any]:
    """Name the port that stands in the request."""
    found = re.search(r"port (\d+)", str(call.input))
    return [assistant_message(f"It is {found[1]}." if found else "I do not know.")]


async def main() -> None:
    """Tell one session, and ask another."""
    with HierarchicalMemory("./memory") as memory:
        agent = Agent("helper", model=ScriptedModel([ModelStep.respond(answer)] * 2))
        config = RunConfig(call_model_input_filter=recalling(memory, max_tokens=1_000))
        told, asked = "The Vault server of staging listens on port 18443.", "Which port does Vault listen on?"
        await Runner.run(agent, told, session=TinymemSession("monday", memory), run_config=config)
        session = TinymemSession("tuesday", memory)
        print((await Runner.run(agent, asked, session=session, run_config=config)).final_output)
        print(len(await session.get_items()), "items are in the session.")


set_tracing_disabled(True)
asyncio.run(main())
