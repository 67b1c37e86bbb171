"""A model without memory for the agents of examples/, and the world in which they work: a chain of sheets to read.

The model's next move is a function of the messages of the request, and of nothing else: it reads on where the newest
result points, and when it needs what an early sheet said, it looks for it in the messages, or says that it no longer
knows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from servers import Answer, chat_answer_with

from tinymem.steps.content import as_text

Messages = Sequence[dict[str, Any]]

ROLES = (
    "Primary PostgreSQL server", "Redis cache", "RabbitMQ broker", "Nginx gateway", "Elasticsearch node",
    "Grafana dashboard", "Vault of secrets", "Jenkins controller", "MinIO object store", "Postfix relay", "Gitea forge",
    "Kafka broker", "Prometheus collector", "Keycloak identity provider",
)  # fmt: skip
ENVIRONMENTS = ("production", "staging", "testing", "training", "demo", "partner", "archive", "disaster recovery")
WANTED = ("Primary PostgreSQL server", "staging")
PLACE = 3  # of the wanted sheet in the chain
TASK = "Read all the sheets, each of which names the next, and then follow the checklist. Begin with {first}."
CHECKLIST = """\
# Checklist
Open the tunnel to the staging database: read tunnels/PORT.txt, where PORT is the port that the staging database listens
on. Report the word that stands there.
"""
LOST = "I no longer know."
BUDGET = 2_000  # tokens of a prompt
QUESTION = "Which port does the staging database listen on?"


class World(NamedTuple):
    """The folder of the sheets, and what the last one asks for: the `port`, and the `word` that it opens."""

    folder: Path
    sheets: int
    port: str
    word: str


def make_world(folder: Path) -> World:
    """One sheet for each role in each environment: the same sentences, another port."""
    pairs = [(role, environment) for environment in ENVIRONMENTS for role in ROLES]
    pairs.sort(key=lambda pair: hashlib.sha256("/".join(pair).encode()).digest())
    pairs.remove(WANTED)
    pairs.insert(PLACE, WANTED)
    (folder / "hosts").mkdir(parents=True)
    (folder / "tunnels").mkdir()
    paths = [*(f"hosts/{at:03}.md" for at in range(len(pairs))), "checklist.md"]
    for at, (role, environment) in enumerate(pairs):
        (folder / paths[at]).write_text(
            f"# Host {at:03}\n{role} of the {environment} environment. It listens on TCP port {port(at)}.\n"
            f"Rack {at % 9}, slot {at % 23}; {8 << at % 4} GB of memory; patched in week {1 + at * 7 % 52}.\n"
            f"Next sheet: {paths[at + 1]}\n",
            "utf-8",
        )
        (folder / "tunnels" / f"{port(at)}.txt").write_text(f"The tunnel is open. The word is {word(at)}.\n", "utf-8")
    (folder / "checklist.md").write_text(CHECKLIST, "utf-8")
    return World(folder, len(pairs), port(PLACE), word(PLACE))


def first_sheets(folder: Path, count: int) -> World:
    """The first sheets of the world, and then the checklist."""
    made = make_world(folder)
    last = folder / f"hosts/{count - 1:03}.md"
    last.write_text(last.read_text("utf-8").replace(f"hosts/{count:03}.md", "checklist.md"), "utf-8")
    return made._replace(sheets=count)


def port(at: int) -> str:
    """The port of a host; no other number in the sheets has five digits."""
    return str(20_011 + 137 * at)


def word(at: int) -> str:
    """The word behind a host's port."""
    return hashlib.sha256(str(at).encode()).hexdigest()[:12]


class Move(NamedTuple):
    """What the model does next: read the file at `path`, or give the `answer`."""

    path: str = ""
    answer: str = ""


def next_move(messages: Messages) -> Move:
    """What follows from the messages."""
    newest = next(text for text in reversed(texts(messages)) if not text.startswith("<"))
    if found := re.search(r"(?:Next sheet:|Begin with) ([\w/.]+\w)", newest):
        return Move(path=found[1])
    if found := re.search(r"The word is (\w+)", newest):
        return Move(answer=found[1])
    known = remembered(messages)
    if known is None:
        return Move(answer=LOST)
    return Move(path=f"tunnels/{known}.txt") if "tunnels/PORT.txt" in newest else Move(answer=known)


def remembered(messages: Messages) -> str | None:
    """The port of the staging database, which a sheet calls otherwise, if that stands in the messages."""
    said = re.compile(r"PostgreSQL server of the staging environment\. It listens on TCP port (\d+)")
    return next((found[1] for text in texts(messages) if (found := said.search(text))), None)


def texts(messages: Messages) -> list[str]:
    """The text of each message."""
    return [as_text(message.get("content")) for message in messages]


def with_tools(body: dict[str, Any]) -> Answer:
    """The model's next move as a call of a tool, or as a plain answer."""
    move = next_move(body["messages"])
    return calling(("read_file", {"path": move.path})) if move.path else chat_answer_with(move.answer)


def with_code(body: dict[str, Any]) -> Answer:
    """The model's next move as a block of Python."""
    move = next_move(body["messages"])
    line = f"print(open({move.path!r}).read())" if move.path else f"final_answer({move.answer!r})"
    return coding(line)


def coding(code: str, thought: str = "I go on.") -> Answer:
    """A turn with a block of Python."""
    return chat_answer_with(f"{thought}\n```python\n{code}\n```")


def calling(*calls: tuple[str, object], thought: str | None = "I go on.") -> Answer:
    """A turn that calls tools: each with its name and its arguments, which are JSON text if they are a string."""
    texts = [given if isinstance(given, str) else json.dumps(given) for _, given in calls]
    functions = [{"name": name, "arguments": text} for (name, _), text in zip(calls, texts, strict=True)]
    # The same ids in every turn, as some servers have it.
    made = [{"id": f"call_{at}", "type": "function", "function": one} for at, one in enumerate(functions)]
    return chat_answer_with(thought, "tool_calls", tool_calls=made)


def in_turn(answers: Iterable[Answer]) -> Callable[[dict[str, Any]], Answer]:
    """A model that says these, one a request, whatever it is told."""
    left = iter(answers)
    return lambda body: next(left)
