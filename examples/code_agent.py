"""A code-running agent (CodeAct): the model acts by writing Python, and sees what it prints.

Each turn, its code and its output, is one step of a HierarchicalMemory, which brings back what bears on the newest
ones. Its scratchpad (an AgentMemory) is the agent's notebook: the code stores values in it and notes what it found
out, and every prompt shows what stands there. With the same --memory, the next task knows of the steps and notes of
this one.

    pip install "tinymem-agents[openai]"
    export OPENAI_API_KEY=...    # and OPENAI_BASE_URL, for any other server that speaks OpenAI's API
    python examples/code_agent.py "How many rows does data.csv have twice?" --memory ./memory --max-tokens 4000

THIS IS NO SANDBOX. The model's code runs in this very process, with all your rights, your files and your network, and
nothing ends a loop without an end. Run it in a container that you can lose.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import traceback
from typing import Any

from openai import OpenAI, OpenAIError

from tinymem import (
    ActionStep,
    FinalAnswerStep,
    HierarchicalMemory,
    TaskStep,
    TinymemError,
)

SYSTEM = """\
You solve the user's task by writing Python. In each turn, say briefly what you think, and write one block that begins \
with ```python and ends with ```. It is run, and in the next turn you see what it printed, or its error. Variables \
stay from block to block. Of your earlier turns you see what bears on the newest ones; store(name, value), \
observe(text) and fail(text) write into your notebook, which you always see. When you know the answer, call \
final_answer(answer)."""
BLOCK = re.compile(r"^```(?:python|py)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LONGEST = 100_000  # characters of an output that are kept; a prompt shows of them what fits


class Answered(BaseException):
    """Ends the code that gives the final answer, through any `except Exception` in it."""


def final_answer(answer: object) -> None:
    """What the model's code calls when it is done."""
    raise Answered(shown(str(answer)))


def run(code: str, namespace: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """What the code printed, its error, and its final answer; the last two are None where there is none."""
    printed, error, answer = io.StringIO(), None, None
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(code, "<block>", "exec", dont_inherit=True), namespace)
        except Answered as answered:
            answer = answered.args[0]
        except (Exception, SystemExit) as raised:  # for the model, which can mend it
            own = raised.__traceback__ and raised.__traceback__.tb_next  # without the line above
            error = shown("".join(traceback.format_exception(type(raised), raised, own)).strip())
    return shown(printed.getvalue()), error, answer


def shown(text: str) -> str:
    """The text, cut where it is very long, and without what cannot be sent."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters]"
    return cut.encode("utf-8", "replace").decode()


def acted(reply: str, namespace: dict[str, Any]) -> tuple[ActionStep, str | None]:
    """The model's turn as a step, with what came of its first block, and the final answer if that gave one."""
    found = BLOCK.search(reply)
    if found is None:
        return ActionStep(reply, error="There is no block of Python in this: write one, as ```python ... ```."), None
    output, error, answer = run(found[1], namespace)
    # What stands behind the block is left out: models like to make up what it will print.
    step = ActionStep(
        reply[: found.start()].strip(),
        code=found[1].rstrip(),
        observation=output or "(nothing was printed)",
        error=error,
        is_final=answer is not None,
    )
    return step, answer


def solve(task: str, memory: HierarchicalMemory, model: str, max_tokens: int, max_steps: int) -> str | None:
    """The answer that the model's code gives, or None if it gives none in `max_steps` turns."""
    client = OpenAI()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    memory.add(TaskStep(task))
    for _ in range(max_steps):
        namespace.update(memory.scratchpad.to_namespace(), final_answer=final_answer)
        messages: Any = memory.context(max_tokens=max_tokens).messages
        reply = client.chat.completions.create(model=model, messages=messages).choices[0].message.content
        if not reply:
            continue  # it said nothing, and is asked again
        step, answer = acted(reply, namespace)
        memory.add(step)
        print(step.text, file=sys.stderr)
        if answer is not None:
            memory.add(FinalAnswerStep(answer))
            return answer
    return None


def main() -> int:
    """The command line; 1 if there is no answer."""
    parser = argparse.ArgumentParser(description="An agent that writes Python, runs it and remembers.")
    parser.add_argument("task")
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--memory", default="./memory", help="the folder of the memory, made if it is not there")
    parser.add_argument("--max-tokens", type=int, default=4_000, help="the most that the messages of a prompt have")
    parser.add_argument("--max-steps", type=int, default=50, help="the most turns that the model has")
    args = parser.parse_args()
    size = args.max_tokens
    try:
        with HierarchicalMemory(args.memory, namespace="code", max_tokens=size, system_prompt=SYSTEM) as memory:
            answer = solve(args.task, memory, args.model, size, args.max_steps)
    except (OpenAIError, TinymemError) as error:
        sys.exit(f"error: {error}")
    print(f"No answer after {args.max_steps} steps." if answer is None else answer)
    return answer is None


if __name__ == "__main__":
    sys.exit(main())
