"""The agents of examples/, as real processes, against a server whose model knows only what stands in the messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripted_model import (
    BUDGET,
    LOST,
    PLACE,
    TASK,
    World,
    calling,
    coding,
    in_turn,
    make_world,
    texts,
    with_code,
    with_tools,
)
from servers import KEY, Answer, OpenAIServer, chat_answer_with, failure, openai_server

from tinymem import count_tokens
from tinymem.messages import problems

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
AGENTS: dict[str, Callable[[dict[str, Any]], Answer]] = {"react_agent": with_tools, "code_agent": with_code}


class Run(NamedTuple):
    """How an agent's process ended, and the messages of each of its requests."""

    status: int
    out: str
    err: str
    requests: list[list[dict[str, Any]]]


Started = tuple["subprocess.Popen[str]", OpenAIServer]


def start(server: OpenAIServer, program: Path, *args: object, folder: Path, **env: str) -> Started:
    ours = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(REPOSITORY)}
    environment = {**os.environ, **ours, **env}
    command = [sys.executable, str(program), *map(str, args)]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, encoding="utf-8", **pipes), server


def ended(started: Started) -> Run:
    process, server = started
    out, err = process.communicate(timeout=600)
    return Run(process.returncode, out.strip(), err, [body["messages"] for body in server.requests])


def run(agent: str, model: Any, folder: Path, *args: object, **env: str) -> Run:
    with openai_server() as server:
        server.chat = model
        return ended(start(server, EXAMPLES / f"{agent}.py", *args, folder=folder, **env))


def check(one: Run, budget: int = BUDGET) -> None:
    """Every request is valid, and within the budget as the server counts it."""
    assert one.requests
    assert [found for messages in one.requests if (found := problems(messages))] == []
    assert max(map(count_tokens, one.requests)) <= budget


# -- what was seen 100 steps ago ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world") / "sheets")


@pytest.fixture(scope="module", params=["react_agent", pytest.param("code_agent", marks=pytest.mark.slow)])
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runs(world: World, agent: str) -> dict[str, Run]:
    """The agent, with tinymem and with a window alone, at once."""
    task, window_only = TASK.format(first="hosts/000.md"), Path(__file__).parents[1] / "support" / "window_only.py"
    options = ("--max-tokens", BUDGET, "--max-steps", 200, "--memory", world.folder.parent / "memory")
    commands: dict[str, tuple[object, ...]] = {
        agent: (EXAMPLES / f"{agent}.py", task, *options),
        f"{agent}, window": (window_only, agent, task, world.folder, BUDGET),
    }
    started: dict[str, Started] = {}
    with ExitStack() as stack:
        for kind, (program, *args) in commands.items():
            server = stack.enter_context(openai_server())
            server.chat = AGENTS[agent]
            started[kind] = start(server, Path(str(program)), *args, folder=world.folder)
        return {kind: ended(one) for kind, one in started.items()}


def needing(one: Run) -> list[dict[str, Any]]:
    """The messages of the request in which the model needed the port: the first that showed it the checklist."""
    return next(messages for messages in one.requests if any("# Checklist" in text for text in texts(messages)))


@pytest.mark.slow
def test_an_agent_uses_what_it_saw_100_steps_ago(runs: dict[str, Run], world: World, agent: str) -> None:
    done = runs[agent]
    assert (done.status, done.out) == (0, world.word), done.err
    check(done)
    assert len(done.requests) == world.sheets + 3  # for the sheets, the checklist, the tunnel and the answer
    assert world.sheets - PLACE > 100
    (where,) = [text for text in texts(needing(done)) if world.port in text]
    assert re.match("<recalled-[0-9]{12} ", where)


@pytest.mark.slow
def test_with_a_window_alone_of_as_many_tokens_it_does_not_know(runs: dict[str, Run], world: World, agent: str) -> None:
    done, with_memory = runs[f"{agent}, window"], runs[agent]
    assert (done.status, done.out) == (0, LOST), done.err
    check(done)
    assert len(done.requests) == world.sheets + 2  # for the sheets, the checklist and giving up
    assert not any(world.port in text for text in texts(needing(done)))
    assert count_tokens(needing(done)) > BUDGET - 150  # one more step would not have fitted
    spent, spent_with_memory = (sum(map(count_tokens, one.requests[:-2])) for one in (done, with_memory))
    assert spent > 0.9 * spent_with_memory


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def notebook(messages: Any) -> list[str]:
    """What a prompt shows of the scratchpad."""
    return [text for text in texts(messages) if text.startswith("<scratchpad-")]


@pytest.mark.slow
def test_what_becomes_of_its_code_is_told_to_the_model(tmp_path: Path) -> None:
    turns: list[tuple[Answer, str]] = [
        (coding("x = 6\nprint('one'); 1 / 0"), "ZeroDivisionError: division by zero\nObservation: one\n"),
        (coding("print(x * 7)"), "Observation: 42\n"),  # names stay
        (coding(""), "Observation: (nothing was printed)"),
        (coding("import sys; print('e', file=sys.stderr); sys.exit(3)"), "SystemExit: 3\nObservation: e\n"),
        (coding(r"print('\ud800 \0 \U0001f418')"), "Observation: ? \0 \U0001f418\n"),
        (coding(r"print('\n```\n')" + "\nprint(2)"), "Observation: \n```\n\n2\n"),
        (chat_answer_with("I think it is 42."), "Error: There is no block of Python in this"),
        (chat_answer_with("```python\nprint(1)\n```\nIt printed 2.\n```python\nprint(2)\n```"), "Observation: 1\n"),
        (coding("store('half', x / 2); observe('x is six'); fail('guessing')"), "- half: 3.0\n"),
        (coding("final_answer = store = None; print(half)"), "Observation: 3.0\n"),
    ]
    last = coding("try:\n    final_answer(f'{half} \\ud800')\nexcept Exception:\n    print('kept')")
    model = in_turn([*(turn for turn, _ in turns), last])
    done = run("code_agent", model, tmp_path, "Try.", "--max-tokens", 4_000)
    assert (done.status, done.out) == (0, "3.0 ?"), done.err
    check(done, 4_000)
    told = ["\n".join([*notebook(messages), *texts(messages)[-2:]]) for messages in done.requests[1:]]
    assert [(said, expected) for said, (_, expected) in zip(told, turns, strict=True) if expected not in said] == []
    notes = notebook(done.requests[-1])[0]
    assert all(note in notes for note in ("- half: 3.0\n", "- x is six\n", "- guessing"))
    shown = "\n".join(text for messages in done.requests for text in texts(messages))
    assert "It printed 2." not in shown  # what the model makes up about its code
    assert "code_agent.py" not in shown  # tracebacks are of its code alone


@pytest.mark.slow
def test_what_cannot_go_on_ends_with_a_line_that_says_why(tmp_path: Path) -> None:
    endless, refused = calling(("list_folder", {"path": "."})), failure(400, "The model is asleep.")
    cases: list[tuple[Answer, tuple[object, ...], dict[str, str], str]] = [
        (endless, ("--max-steps", 3), {}, "No answer after 3 steps."),
        (refused, (), {}, "The model is asleep."),
        (endless, ("--max-tokens", 30), {}, "more than the budget of 30"),
        (endless, (), {"OPENAI_API_KEY": ""}, "error: "),
    ]
    for at, (answer, args, env, expected) in enumerate(cases):
        done = run("react_agent", lambda body, said=answer: said, tmp_path, "Try.", "--memory", at, *args, **env)
        assert done.status == 1
        assert expected in done.out + done.err and "Traceback" not in done.err, (at, done.out, done.err)
