"""Moments: a memory of many sessions, and prompts that need something said in one of them, or nothing.

A file of moments is JSON:

    kinds    by name: `facts` (what a person states), `causes` (request, command, output, the agent's finding), `later`?
             (corrections), `needs` ({"style", "prompt", "wants", "stale"?}: what the needed and the old text match),
             `standing`? (its wishes hold for every task, so that no prompt there needs nothing)
    nothing  by class: prompts that need nothing, as text or {"prompt", "turns": [[request, answer], ...]}, where they
             have something before them in their session
    filler   `areas`, `verbs` and `nouns`, of which unrelated sessions are made
    foreign  {"repository", "prompt"}: what people typed elsewhere, to be asked of recorded runs of other repositories

`sessions_of` gives the sessions of a kind among unrelated ones, `archive` puts them into a memory as a hook does when
an agent stops, and `open_session` what a prompt's own session holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, TypeAlias
from zlib import crc32

from benchmarks.harness.data import Haystack
from benchmarks.harness.methods import as_message
from tinymem import HierarchicalMemory
from tinymem.errors import InputError
from tinymem.messages import repair

__all__ = [
    "Kind",
    "Moments",
    "Prompt",
    "archive",
    "generated",
    "open_session",
    "read_moments",
    "recorded",
    "sessions_of",
]

Session: TypeAlias = list[dict[str, Any]]  # its chat messages

BEHIND_A_TURN = ("acknowledgement", "continuation")  # classes that refer to a turn of their session
FOREIGN = "foreign"
PIECE = 60  # messages of a recorded run that are a session, at most
LINES = 12  # of a made-up output, at most
APART = timedelta(hours=23, minutes=7)  # between two sessions
WORK = (  # of unrelated sessions: a request, its answer, a tool, what it is given, and a line of its output
    ("{file} is too long. Split {name}.", "It is {name} and {name} now; the {area} behaves as before.",
     "Read", "{file}", "def {name}({noun}): return {name}({noun}, {noun}={number})"),
    ("No test reads a {noun} of the {area}. Write {name}.", "The {area} has a test now.",
     "Write", "tests/{area}/test_{noun}.py", "test_{name} passed in {number} ms"),
    ("The {noun} of the {area} is cut off on a phone.", "The {noun} of the {area} had a fixed width.",
     "Bash", "grep -n {area} {file}", "{file}:{number}: .{area}-{noun} {{ width: {number}px }}"),
    ("Is anything odd in the log of the {area}?", "No, {name} is slow, as ever.",
     "Bash", "tail logs/{area}.log", "INFO {area}: {name} {noun}={number} took {number} ms"),
    ("Explain {name} to me.", "It makes a {noun} of each {noun} of the {area} and leaves empty ones out.",
     "Bash", "grep -rn {name} src", "{file}:{number}: {noun} = {name}({noun})"),
    ("Bring {area}-kit up to date.", "Done; {name} is called {name} there.",
     "Bash", "pip install -U {area}-kit", "Successfully installed {noun}-kit-{number}.2"),
    ("What did the last commit change in {file}?", "Little: {name} got shorter.",
     "Bash", "git show --stat", " src/{area}/{name}.py | {number} +++--"),
)  # fmt: skip


@dataclass(frozen=True)
class Prompt:
    """A prompt that a person types in a new session.

    Attributes:
        style: "direct", "paraphrase" or "task" where something earlier is needed, else the class of needless ones.
        wants: Matches the needed text; None where nothing is needed.
        stale: Matches what the needed text corrected.
        turns: Requests and answers of its session, before it.
        repository: Where it was typed, of a foreign one.
    """

    text: str
    style: str
    wants: re.Pattern[str] | None = None
    stale: re.Pattern[str] | None = None
    turns: tuple[tuple[str, str], ...] = ()
    repository: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of earlier session, what corrects it later, and the prompts that need it."""

    name: str
    turns: tuple[Session, ...]
    later: Session
    needs: tuple[Prompt, ...]
    is_standing: bool

    @property
    def texts(self) -> list[str]:
        """The texts of it and of its corrections."""
        return [str(message["content"]) for turn in (*self.turns, self.later) for message in turn]


@dataclass(frozen=True)
class Moments:
    """A file of moments."""

    kinds: tuple[Kind, ...]
    nothing: tuple[Prompt, ...]
    words: Mapping[str, Sequence[str]]
    foreign: tuple[Prompt, ...]


def read_moments(path: Path) -> Moments:
    """Read a file of moments; InputError if it is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        kinds = tuple(_kind(name, kind) for name, kind in record["kinds"].items())
        nothing = tuple(_needless(style, item) for style, items in record["nothing"].items() for item in items)
        foreign = tuple(Prompt(x["prompt"], FOREIGN, repository=x["repository"]) for x in record.get("foreign", ()))
        return Moments(kinds, nothing, record["filler"], foreign)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        raise InputError(f"{path.name} is not a file of moments: {error!r}") from error


def _kind(name: str, record: Mapping[str, Any]) -> Kind:
    causes = [
        _turn(request, answer, ("Bash", command, output)) for request, command, output, answer in record["causes"]
    ]
    facts = [_turn(fact, "Noted.") for fact in record["facts"]]
    later = [message for text in record.get("later", ()) for message in _turn(text, "I will keep that in mind.")]
    return Kind(name, (*facts, *causes), later, tuple(map(_need, record["needs"])), bool(record.get("standing")))


def _need(record: Mapping[str, str]) -> Prompt:
    stale = re.compile(record["stale"], re.DOTALL) if "stale" in record else None
    return Prompt(record["prompt"], record["style"], re.compile(record["wants"], re.DOTALL), stale)


def _needless(style: str, item: str | Mapping[str, Any]) -> Prompt:
    if isinstance(item, str):
        return Prompt(item, style)
    return Prompt(item["prompt"], style, turns=tuple((request, answer) for request, answer in item["turns"]))


def _turn(request: str, answer: str, call: tuple[str, str, str] | None = None) -> Session:
    """Chat messages of a request and its answer, and of a call with its tool, what it is given, and its output."""
    asked, said = {"role": "user", "content": request}, {"role": "assistant", "content": answer}
    if call is None:
        return [asked, said]
    tool, given, output = call
    arguments = json.dumps({"command" if tool == "Bash" else "file_path": given})
    named = {"id": f"call_{crc32(request.encode()):x}", "type": "function"}
    calls = [named | {"function": {"name": tool, "arguments": arguments}}]
    result = {"role": "tool", "tool_call_id": named["id"], "content": output}
    return [asked, {"role": "assistant", "content": "", "tool_calls": calls}, result, said]


# -- sessions ---------------------------------------------------------------------------------------------------------


def generated(words: Mapping[str, Sequence[str]], count: int, seed: str) -> list[Session]:
    """Return `count` sessions of two to four turns of made-up work."""
    random = Random(seed)
    sessions = []
    for _ in range(count):
        area = random.choice(words["areas"])
        work = random.sample(WORK, random.randint(2, 4))
        sessions.append([message for turn in work for message in _made_up(turn, area, words, random)])
    return sessions


def _made_up(turn: Sequence[str], area: str, words: Mapping[str, Sequence[str]], random: Random) -> Session:
    file = f"src/{area}/{random.choice(words['verbs'])}_{random.choice(words['nouns'])}.py"

    def filled(text: str) -> str:
        name = f"{random.choice(words['verbs'])}_{random.choice(words['nouns'])}"
        return text.format(
            area=area, file=file, name=name, noun=random.choice(words["nouns"]), number=random.randint(2, 999)
        )

    request, answer, tool, given, line = turn
    output = "\n".join(filled(line) for _ in range(random.randint(1, LINES)))
    return _turn(filled(request), filled(answer), (tool, filled(given), output))


def recorded(haystacks: Iterable[Haystack], count: int, seed: str, but: str = "") -> list[Session]:
    """Return `count` pieces of recorded runs, each from a request on, none of the repository `but`."""
    runs = [haystack for haystack in haystacks if haystack.is_agent_run and repository_of(haystack) != but]
    starts = [
        (run, place) for run in runs for place, unit in enumerate(run.units) if unit.speaker == "user" and unit.text
    ]
    if not starts:
        raise InputError(f"there is no recorded run of another repository than {but or 'none'!r}")
    random = Random(seed)
    drawn = [random.choice(starts) for _ in range(count)]
    return [repair([as_message(unit) for unit in run.units[place : place + PIECE]]) for run, place in drawn]


def repository_of(run: Haystack) -> str:
    """Return the repository of a run by its id, "kind:repository/run"; the kind where the id names none."""
    kind, _, rest = run.id.partition(":")
    return rest.partition("/")[0] if "/" in rest else kind


def sessions_of(kind: Kind, others: Sequence[Session], spread: bool = False) -> list[Session]:
    """Return the sessions of a kind: its own, then `others`, with its corrections in the middle.

    With `spread`, each of its turns begins another of the first half of `others`: a block that brings back one
    session whole has one needed text then, not all.
    """
    half = len(others) // 2
    before, after = list(others[:half]), list(others[half:])
    if spread:
        places = Random(kind.name).sample(range(half), len(kind.turns))
        for place, turn in zip(places, kind.turns, strict=True):
            before[place] = turn + before[place]
    else:
        before.insert(0, [message for turn in kind.turns for message in turn])
    return before + ([kind.later] if kind.later else []) + after


def archive(memory: HierarchicalMemory, sessions: Sequence[Session]) -> None:
    """Archive sessions, a day apart, the last one a day ago."""
    now = datetime.now(timezone.utc)
    for place, messages in enumerate(sessions):
        said = now - APART * (len(sessions) - place)
        memory.archive_messages(messages, session=f"session-{place}", now=said)


def open_session(memory: HierarchicalMemory, prompt: Prompt, session: str, words: Mapping[str, Sequence[str]]) -> None:
    """Archive what the prompt's own session holds, if anything, under the name `session`."""
    said = [message for request, answer in prompt.turns for message in _turn(request, answer)]
    if prompt.style in BEHIND_A_TURN:
        said = generated(words, 1, session)[0][:4]  # a request, a call, its result, and the answer
    if said:
        memory.archive_messages(said, session=session)
