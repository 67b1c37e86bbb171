"""Requests that were made before: they answer nothing, and do not hide what does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinymem import ActionStep, HierarchicalMemory, MessageStep
from tinymem.recall.query.requests import Request

MEMORY = {"embedder": "static"}
SERVICES = ["ledger", "cart", "search", "mail", "auth", "billing", "catalog", "shipping", "stock", "report"]
OWNERS = ["Nora", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tomas", "Uma", "Vera", "Walt"]
THOUGHTS = [
    "I have to tell the owner of {0}. Who owns {0}?", "Who owns {0}?", "I need to find out who owns {0}.",
    "I don't have any context about who owns {0}.",
]  # fmt: skip


def rounds_of_work() -> Iterator[ActionStep]:
    """Yield ten manifests and 120 rounds of logs."""
    for port, (service, owner) in enumerate(zip(SERVICES, OWNERS, strict=True), 2_100):
        text = f"service {service}\nport: {port}\nowner: {owner}\nregion: eu-{port % 7}"
        yield ActionStep("Next.", tool_name="read_file", tool_args={"path": service}, observation=text)
    for at in range(120):
        lines = [f"[{at * 7 + line}] {SERVICES[at % 10]} request {at * line} took {line} ms" for line in range(8)]
        yield ActionStep("Logs.", tool_name="tail", tool_args={"n": at}, observation="\n".join(lines))


@pytest.fixture(scope="module")
def manifests() -> Iterator[HierarchicalMemory]:
    with HierarchicalMemory(store="exact") as memory:
        memory.archive([*rounds_of_work()])
        yield memory


@pytest.mark.parametrize(("role", "thought"), [*(("", thought) for thought in THOUGHTS), ("assistant", THOUGHTS[2])])
def test_an_agents_own_question_is_no_rival_of_its_answer(
    manifests: HierarchicalMemory, thought: str, role: str
) -> None:
    found, asked = 0, "Who owns {}?"
    for service, owner in zip(SERVICES, OWNERS, strict=True):
        said = thought.format(service)
        manifests.archive([MessageStep(role, said) if role else ActionStep(said, tool_name="date", observation="ok")])
        recalled = manifests.recall(asked.format(service), max_tokens=1_000)
        assert said not in recalled.text
        found += owner in recalled.text and "owner: " in str(manifests.tools()[0].call(query=asked.format(service)))
    assert found == len(SERVICES)


@pytest.mark.parametrize(("is_said", "budget"), [(True, 8_000), (False, 2_000)])
def test_a_fit_finds_what_recall_finds_however_many_longer_passages_name_the_same(is_said: bool, budget: int) -> None:
    history, found = [dict(message) for step in rounds_of_work() for message in step.to_messages()], 0
    with HierarchicalMemory(store="exact") as memory:
        for service, owner in zip(SERVICES, OWNERS, strict=True):
            asked = f"Who owns {service}?"
            history.append({"role": "assistant", "content": f"I have to tell the owner of {service}. {asked}"})
            history += [{"role": "user", "content": asked}] if is_said else []
            context = memory.fit(history, session="s", max_tokens=budget, query=None if is_said else asked)
            found += f"owner: {owner}" in str(context.messages)
            history.append({"role": "assistant", "content": "I told the owner."})
    assert found == len(SERVICES)


def test_what_somebody_asked_and_somebody_answered_comes_back() -> None:
    asked, answer = "Who looks after the ledger service?", "Nora does, since May."
    with HierarchicalMemory(store="exact") as memory:
        memory.archive([MessageStep("user", asked), MessageStep("assistant", answer)])
        memory.archive([MessageStep("user", f"Shelf {n} has {n * 7} jars of jam, I think.") for n in range(300)])
        text = memory.recall(asked, 300).text
    assert asked in text and answer in text


def test_a_denial_is_no_knowledge_whatever_is_said_behind_it(memory: HierarchicalMemory) -> None:
    asked = "When is the Larkspur migration?"
    turns = [MessageStep("user", asked), MessageStep("assistant", "I don't have any context about that migration.")]
    memory.archive([*turns, MessageStep("user", "Fine, let us count the jars.")])
    memory.archive([MessageStep("user", f"Shelf {n} has {n * 7} jars of jam, I think.") for n in range(300)])
    assert "migration" not in memory.recall(asked, 300).text


@pytest.mark.parametrize(
    ("text", "by_agent", "only"),
    [
        ("Let me look up the owner of ledger.", True, True),
        ("There is no information about ledger in my notes.", True, True),
        ("Sorry, I'm not aware of who owns ledger. If you share the manifest, I can look.", True, True),
        ("I was unable to find anything about ledger.", True, True),
        ("I don't have any context about ledger. Its owner is Nora.", True, False),
        ("I have to tell the owner of ledger, Nora Roe.", True, False),
        ("Did you know that Nora owns ledger?", True, False),
        ("The ledger has no owner.", True, False),
        ("I couldn't find a cart on the ledger page, so Nora owns it.", True, False),
        ("I don't own ledger.", True, False),
        ("I want to visit the owner of ledger.", False, False),
    ],
)
def test_only_what_tells_nothing_is_a_request(text: str, by_agent: bool, only: bool) -> None:
    assert Request("Who owns ledger?").only_asks(text, by_agent) == only
