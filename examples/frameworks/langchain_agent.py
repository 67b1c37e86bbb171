"""A LangChain agent with a budget, whose threads know what others were told.

    pip install "tinymem-agents[langchain]"
    python examples/frameworks/langchain_agent.py

The model is a script that only knows its request. Put yours in its place.
"""

from __future__ import annotations

import re
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tinymem import HierarchicalMemory
from tinymem.integrations.langchain import TinymemMiddleware, TinymemRetriever


class Scripted(BaseChatModel):
    """A model that names the port that it is sent."""

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        found = re.search(r"port (\d+)", "\n".join(message.text for message in messages))
        answer = AIMessage(f"It is {found[1]}." if found else "I do not know.")
        return ChatResult(generations=[ChatGeneration(message=answer)])

    @property
    def _llm_type(self) -> str:
        return "scripted"


with HierarchicalMemory("./memory") as memory:
    agent = create_agent(Scripted(), middleware=[TinymemMiddleware(memory, max_tokens=1_000)])
    told = "The Vault server of staging listens on port 18443."
    agent.invoke({"messages": [("user", told)]}, {"configurable": {"thread_id": "monday"}})
    asked = "Which port does Vault listen on in staging?"
    done = agent.invoke({"messages": [("user", asked)]}, {"configurable": {"thread_id": "tuesday"}})
    print(done["messages"][-1].text)
    print("The retriever finds:", TinymemRetriever(memory=memory, k=1).invoke("Vault")[0].page_content)
