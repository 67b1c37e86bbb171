"""A ReAct agent with tools, whose memory outlives its context window.

Each turn of the model, with the results of its calls, is one step of a HierarchicalMemory. Each prompt is
`memory.context(max_tokens=...)`: the task, the newest steps, and of all earlier ones what bears on them. So no prompt
outgrows its budget, and what a tool said hundreds of steps ago is there again when it is needed.

    pip install "tinymem-agents[openai]"
    export OPENAI_API_KEY=...    # and OPENAI_BASE_URL, for any other server that speaks OpenAI's API
    python examples/react_agent.py "Why does the nightly build fail?" --memory ./memory --max-tokens 4000

With the same --memory, the next task knows of this one. The tools only read, inside --folder; --shell adds one that
runs commands there, with all your rights (Linux, macOS). What describes the tools comes on top of --max-tokens.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired
from typing import Any

from openai import OpenAI, OpenAIError

from tinymem import ActionStep, FinalAnswerStep, HierarchicalMemory, TaskStep, TinymemError, ToolCall

Tool = Callable[..., str]

SYSTEM = """\
You solve the user's task step by step. In each turn, say briefly what you think, and call tools; in the next turn you \
see their results. Of your earlier turns you see what bears on the newest ones. When you know the answer, give it \
without calling a tool."""
LONGEST = 100_000  # characters of a result that are kept; a prompt shows of them what fits


class Tools:
    """What the model may call: each method is a tool, and its docstring is the description."""

    def __init__(self, folder: str, timeout: float) -> None:
        self._folder, self._timeout = Path(folder).resolve(), timeout

    def list_folder(self, path: str) -> str:
        """List a folder. The path is relative to the working folder, "." is that folder itself."""
        found = self._inside(path).iterdir()
        return "\n".join(sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in found))

    def read_file(self, path: str) -> str:
        """Read a text file. The path is relative to the working folder."""
        return self._inside(path).read_text(encoding="utf-8", errors="replace")

    def run_shell(self, command: str) -> str:
        """Run a shell command in the working folder, and see what it prints, and its exit status."""
        with tempfile.TemporaryFile() as output:  # no pipe: what runs on in the background must not keep us waiting
            streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": output, "stderr": STDOUT, "start_new_session": True}
            with Popen(command, shell=True, cwd=self._folder, **streams) as process:
                try:
                    end = f"[exit status {process.wait(self._timeout)}]"
                except TimeoutExpired:
                    end = f"[killed after {self._timeout:g} s]"
                finally:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)  # the shell and its children
            output.seek(0)
            return output.read().decode("utf-8", "replace") + end

    def _inside(self, path: str) -> Path:
        found = (self._folder / path).resolve()
        if not found.is_relative_to(self._folder):
            raise ValueError(f"{path} is not inside the working folder")
        return found


def described(tool: Tool) -> Any:
    """A tool as the API wants it described: its name, docstring and parameters, which are all strings."""
    names = list(inspect.signature(tool).parameters)
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    return {"type": "function", "function": {"name": tool.__name__, "description": tool.__doc__, "parameters": schema}}


def called(tools: dict[str, Tool], call: Any) -> ToolCall:
    """The model's call with what came of it: whatever goes wrong is told to the model, which can mend it."""
    name, arguments = call.function.name, call.function.arguments
    try:
        if name not in tools:
            raise ValueError(f"there is no tool {name}; the tools are {', '.join(tools)}")
        kind, text = "observation", tools[name](**json.loads(arguments)) or "(nothing)"
    except Exception as error:
        kind, text = "error", f"{type(error).__name__}: {error}"
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters]"
    return ToolCall(name, arguments, call.id, **{kind: text.encode("utf-8", "replace").decode()})


def solve(
    task: str, memory: HierarchicalMemory, tools: Sequence[Tool], model: str, max_tokens: int, max_steps: int
) -> str | None:
    """The model's answer, or None if it has none after `max_steps` turns."""
    client = OpenAI()
    by_name, offered = {tool.__name__: tool for tool in tools}, [described(tool) for tool in tools]
    memory.add(TaskStep(task))
    for _ in range(max_steps):
        messages: Any = memory.context(max_tokens=max_tokens).messages
        reply: Any = client.chat.completions.create(model=model, messages=messages, tools=offered).choices[0].message
        if reply.tool_calls:
            step = ActionStep(reply.content, [called(by_name, call) for call in reply.tool_calls])
            memory.add(step)
            print(step.thought or "", *(f"-> {call.text}" for call in step.tool_calls), file=sys.stderr)
        elif answer := (reply.content or reply.refusal):  # else it said nothing, and is asked again
            memory.add(FinalAnswerStep(answer))
            return str(answer)
    return None


def main() -> int:
    """The command line; 1 if there is no answer."""
    parser = argparse.ArgumentParser(description="An agent that uses tools and remembers.")
    parser.add_argument("task")
    parser.add_argument("--model", default="gpt-4o-mini")
    parser.add_argument("--memory", default="./memory", help="the folder of the memory, made if it is not there")
    parser.add_argument("--max-tokens", type=int, default=4_000, help="the most that the messages of a prompt have")
    parser.add_argument("--max-steps", type=int, default=50, help="the most turns that the model has")
    parser.add_argument("--folder", default=".", help="the folder that the tools work in")
    parser.add_argument("--shell", action="store_true", help="let the model run any shell command")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a command may take")
    args = parser.parse_args()
    own, size = Tools(args.folder, args.timeout), args.max_tokens
    tools = [own.list_folder, own.read_file, *([own.run_shell] if args.shell else [])]
    try:
        with HierarchicalMemory(args.memory, namespace="react", max_tokens=size, system_prompt=SYSTEM) as memory:
            answer = solve(args.task, memory, tools, args.model, size, args.max_steps)
    except (OpenAIError, TinymemError) as error:
        sys.exit(f"error: {error}")
    print(f"No answer after {args.max_steps} steps." if answer is None else answer)
    return answer is None


if __name__ == "__main__":
    sys.exit(main())
