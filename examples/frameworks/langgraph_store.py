"""A LangGraph graph whose nodes share a store over all threads.

    pip install "tinymem-agents[langgraph]"
    python examples/frameworks/langgraph_store.py

Notes are found by what they mean.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from tinymem import HierarchicalMemory
from tinymem.integrations.langgraph import TinymemStore


def node(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    """Note what is told, and answer questions from the notes."""
    text = str(state["messages"][-1].content)
    if text.endswith("?"):
        found = store.search(("notes",), query=text, limit=1)
        return {"messages": [("ai", found[0].value["text"] if found else "I do not know.")]}
    store.put(("notes", "ann"), text[:20], {"text": text})
    return {"messages": [("ai", "Noted.")]}


with HierarchicalMemory("./memory") as memory:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(store=TinymemStore(memory))
    for text in ("Vault listens on port 18443 in staging.", "Redis has 8 GB of memory."):
        graph.invoke({"messages": [("user", text)]})
    print(graph.invoke({"messages": [("user", "Which port has Vault?")]})["messages"][-1].content)
