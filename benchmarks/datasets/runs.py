"""Haystacks from recorded runs of agents: tau-bench and mini-swe-agent.

The questions are made here. A needle is an identifier that an agent types in a call, that its four newest messages do
not show, that few steps have, and that stands last in a step DISTANCE tokens or more before the call: a memory would
have had to bring it back then. The query is those four messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tinymem.errors import InputError
from tinymem.messages import TiktokenCounter
from tinymem.runs.replays.needles import DISTANCE, IDENTIFIER, RARE, values_in

__all__ = ["mini_swe_agent", "tau_bench"]

Record = dict[str, Any]

SHOWN = 4  # newest messages that the agent still sees,
LENGTH = 1_500  # so many characters of each


def tau_bench(path: Path) -> Iterator[Record]:
    """Yield the runs of a file of results, as `historical_trajectories/gpt-4o-airline.json`."""
    name = "tau_" + path.stem.replace("gpt-4o", "gpt4o").replace("-", "_")
    for one in _json(path):
        run = f"{one['task_id']}/{one['trial']}"
        yield _haystack(f"{name}:{run}", run, one["traj"])


def mini_swe_agent(path: Path) -> Iterator[Record]:
    """Yield the run of each trajectory (`*.traj.json`) in a folder of runs of one model, whose name it gives them."""
    files = sorted(path.rglob("*.traj.json")) if path.is_dir() else [path]
    folder = path if path.is_dir() else path.parent
    for file in files:
        run = file.name.removesuffix(".traj.json")
        yield _haystack(f"{folder.name}:{run}", run, _json(file)["messages"])


def _haystack(id: str, run: str, messages: Sequence[Record]) -> Record:
    units = [_unit(at, message) for at, message in enumerate(messages)]
    return {"id": id, "units": units, "queries": list(_queries(run, units))}


def _unit(at: int, message: Record) -> Record:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    unit: Record = {"id": f"u{at}", "speaker": message["role"], "text": content or "", "timestamp": None}
    unit["session"] = "s0"
    if calls := message.get("tool_calls"):
        unit["tool_calls"] = [{"id": call["id"], **_function(call["function"])} for call in calls]
    if "tool_call_id" in message:
        unit["tool_call_id"] = message["tool_call_id"]
    return unit


def _function(function: Record) -> Record:
    return {"name": function["name"], "arguments": function["arguments"]}


def _queries(run: str, units: Sequence[Record]) -> Iterator[Record]:
    counter = TiktokenCounter()
    texts = [_shown(unit) for unit in units]
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + counter.count(text))
    number = 0
    for at in range(SHOWN + 1, len(units)):
        typed = "\n".join(values_in(units[at]))
        cutoff = at - SHOWN
        for needle in dict.fromkeys(found[0] for found in IDENTIFIER.finditer(typed)):
            holding = [place for place in range(at) if needle in texts[place]]
            gold = [place for place in holding if needle in units[place]["text"]]
            if not gold or len(holding) > RARE or holding[-1] >= cutoff or ends[at] - ends[gold[-1] + 1] < DISTANCE:
                continue
            shown = "\n".join(text[:LENGTH] for text in texts[cutoff:at])
            yield {
                "id": f"{run}#{number}", "text": shown, "type": "provenance", "cutoff": cutoff, "needle": needle,
                "gold": [f"u{place}" for place in gold],
            }  # fmt: skip
            number += 1


def _shown(unit: Record) -> str:
    calls = " ".join(f"{call['name']}({call['arguments']})" for call in unit.get("tool_calls", ()))
    return f"{unit['text']} {calls}"


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
