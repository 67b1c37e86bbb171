"""The store of LangGraph: its operations, times and searches, and a graph that uses it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from adapter_contract import SYSTEM, AdapterContract, Agent, Read, Script

from tinymem import HierarchicalMemory

pytest.importorskip("langgraph", reason="langgraph is not installed (extra: test-all)")

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_model import ScriptedModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp

from tinymem.integrations.langgraph import TinymemStore
from tinymem.integrations.native import to_sync

USERS = ("users",)


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


@pytest.fixture
def store(memory: HierarchicalMemory) -> TinymemStore:
    return TinymemStore(memory)


def test_an_item_that_is_put_again_keeps_the_time_when_it_was_made(store: TinymemStore) -> None:
    for n in (1, 2):
        store.put(USERS, "a", {"n": n})
    item = store.get(USERS, "a")
    assert item is not None and item.value == {"n": 2} and item.created_at < item.updated_at
    assert to_sync(store.memory).stats().steps == 1


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        ({"age": {"$gt": 3}}, ["rex", "tom"]),
        ({"age": {"$gte": 3, "$lt": 9}}, ["ada", "rex"]),
        ({"kind": {"$ne": "dog"}}, ["tom"]),
        ({"owner": {"name": "Ann"}}, ["rex"]),
        ({"kind": "dog", "chipped": True}, ["rex"]),
        ({"chipped": 1}, []),
    ],
)
def test_filters(store: TinymemStore, filter: dict[str, Any], wanted: list[str]) -> None:
    store.put(USERS, "rex", {"kind": "dog", "age": 5, "owner": {"name": "Ann"}, "chipped": True})
    store.put(USERS, "tom", {"kind": "cat", "age": 9})
    store.put(USERS, "ada", {"kind": "dog", "age": 3})
    assert sorted(keys(store.search(USERS, filter=filter))) == wanted


def test_namespaces_end_at_their_labels_and_are_listed(store: TinymemStore) -> None:
    for namespace in (("a",), ("a", "b"), ("a", "bc"), ("a/b",), ("a*",), ("x", "b")):
        store.put(namespace, "k", {"n": 1})
    assert {item.namespace for item in store.search(("a",))} == {("a",), ("a", "b"), ("a", "bc")}
    assert [item.namespace for item in store.search(("a", "b"))] == [("a", "b")]
    assert store.list_namespaces(suffix=("b",)) == [("a", "b"), ("x", "b")]
    assert store.list_namespaces(prefix=("a", "*"), max_depth=1) == [("a",)]
    assert len(store.list_namespaces()) == 6 and store.list_namespaces(limit=2, offset=4) == [("a/b",), ("x", "b")]
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("a.b",), "k")])


def test_a_search_finds_the_best_first_with_a_score_for_each(store: TinymemStore) -> None:
    for key, text in {"food": "Ann likes pasta", "work": "Ann repairs bicycles", "pet": "Ann has a cat"}.items():
        store.put(("users", "ann"), key, {"text": text})
    store.put(("users", "bob"), "food", {"text": "Bob likes pizza"})
    store.put(("users", "ann"), "hidden", {"text": "Ann likes pasta most"}, index=False)
    found = store.search(("users", "ann"), query="What pasta does Ann like?")
    assert keys(found)[0] == "food" and "hidden" not in keys(found)
    assert {item.namespace for item in found} == {("users", "ann")}
    scores = [item.score or -1 for item in found]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    assert keys(store.search(USERS, query="Who likes pizza?", limit=1)) == ["food"]
    assert len(store.search(USERS, query="The tax return of a lighthouse", limit=3)) == 3
    assert store.search(("nobody",), query="pasta") == []


def test_only_the_fields_that_are_named_are_searched(memory: HierarchicalMemory) -> None:
    store = TinymemStore(memory, fields=["title", "notes[*].text"])
    store.put(USERS, "a", {"title": "bicycles", "body": "quokka", "notes": [{"text": "wombat"}]})
    store.put(USERS, "b", {"title": "other", "body": "wallaby"}, index=["body"])
    texts = [step.text for step in memory.history()]
    assert texts == ["bicycles\nwombat", "wallaby"]


@pytest.mark.parametrize("wanted", [{"age": {"$near": 3}}, {"user": {"age": {"$near": 3}}}])
def test_an_unknown_operator_is_a_mistake_also_where_nothing_is_compared(store: TinymemStore, wanted: Any) -> None:
    with pytest.raises(ValueError, match=r"no operator \$near: use \$eq, \$ne, \$gt"):
        store.search(USERS, filter=wanted)


def test_no_reader_sees_a_hole_while_an_item_is_put_again(store: TinymemStore) -> None:
    store.put(USERS, "a", {"n": 0})
    seen: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(store.get(USERS, "a"))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(20):
        store.put(USERS, "a", {"n": n})
    done.set()
    reader.join()
    assert seen and None not in seen


class GraphAgent(Agent):
    """A graph that puts what was said into the store, and what a search of it finds before the messages."""

    def __init__(self, memory: HierarchicalMemory, session: str, script: Script, read: Read, like: Any) -> None:
        super().__init__()

        @tool
        def read_file(path: str) -> str:
            """Read a file."""
            return read(path)

        self.saver = like.saver if like else InMemorySaver()
        self.config: Any = {"configurable": {"thread_id": session}}
        self.model = ScriptedModel(script=script, agent=self)
        self.store = TinymemStore(memory)
        self.said = ("said", session)
        builder: Any = StateGraph(MessagesState)
        builder.add_node("model", RunnableLambda(self.step, self.astep))
        builder.add_node("tools", ToolNode([read_file]))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        self.graph = builder.compile(checkpointer=self.saver, store=self.store)

    def step(self, state: Any) -> Any:
        found = self.store.search(("said",), query=asked_in(state), limit=5)
        answer = self.model.invoke(self.prompt(state, found))
        return {"messages": [answer]}

    async def astep(self, state: Any) -> Any:
        found = await self.store.asearch(("said",), query=asked_in(state), limit=5)
        answer = await self.model.ainvoke(self.prompt(state, found))
        return {"messages": [answer]}

    def prompt(self, state: Any, found: Any) -> list[Any]:
        known = "\n".join(item.value["text"] for item in found if item.namespace != self.said)
        block = f"\n<memories>\n{known}\n</memories>" if known else ""
        return [SystemMessage(SYSTEM + block), *state["messages"]]

    def count(self) -> int:
        return len(self.held())

    def puts(self) -> list[PutOp]:
        """All that was said, be it in the store already or not."""
        return [PutOp(self.said, one.id, {"text": one.text}) for one in self.held() if one.text]

    def ask(self, text: str) -> str:
        answer = self.graph.invoke({"messages": [HumanMessage(text)]}, self.config)["messages"][-1].text
        self.store.batch(self.puts())
        return str(answer)

    async def aask(self, text: str) -> str:
        done = await self.graph.ainvoke({"messages": [HumanMessage(text)]}, self.config)
        await self.store.abatch(self.puts())
        return str(done["messages"][-1].text)

    async def astream(self, text: str) -> None:
        async for _ in self.graph.astream({"messages": [HumanMessage(text)]}, self.config, stream_mode="messages"):
            pass
        await self.store.abatch(self.puts())

    def held(self) -> list[Any]:
        found: list[Any] = self.graph.get_state(self.config).values.get("messages", [])
        return found


def asked_in(state: Any) -> str:
    return next(str(one.text) for one in reversed(state["messages"]) if one.type == "human")


class TestLangGraph(AdapterContract):
    kind = GraphAgent
    fits = False
    excerpts = judges = False

    async def call_tool(self, memory: HierarchicalMemory, name: str, arguments: dict[str, Any]) -> str:
        """Those of LangChain, in a node for tools."""
        pytest.importorskip("langchain")
        from tinymem.integrations.langchain import memory_tools

        builder: Any = StateGraph(MessagesState)
        builder.add_node("tools", ToolNode(memory_tools(memory)))
        builder.add_edge(START, "tools")
        call: Any = {"name": name, "args": arguments, "id": "c1"}
        done = await builder.compile().ainvoke({"messages": [AIMessage("", tool_calls=[call])]})
        return str(done["messages"][-1].content)
