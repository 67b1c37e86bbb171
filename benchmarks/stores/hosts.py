"""Two hosts share a memory in a database, and one is killed: the transcript in benchmarks/tables/reliability.md.

    python -m benchmarks.stores.hosts --url URL              print it
    python -m benchmarks.stores.hosts --url URL --write      put it into the page

Each host is a process with a home folder of its own. It reads commands, and answers each with one line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from benchmarks.harness.documents import parser_of, placed
from benchmarks.speed.run import environment
from tinymem import HierarchicalMemory, MessageStep
from tinymem.upkeep.forgetting import forget_namespace

__all__ = ["main", "transcript"]

PAGE = Path(__file__).parents[1] / "tables" / "reliability.md"
START, END = "<!-- hosts: python -m benchmarks.stores.hosts --url URL --write -->", "<!-- end of hosts -->"
STAGING, KEY, BUDGET = (
    "The staging server is at 10.0.0.7.",
    "The deploy key is in the vault.",
    "The budget is 40 days.",
)
SCRIPT = (  # who does what
    ("A", "add", STAGING),
    ("B", "recall", "Where is staging?"),
    ("B", "add", KEY),
    ("A", "window", ""),
    ("A", "add", BUDGET),
    ("A", "killed", ""),
    ("B", "recall", "How large is the budget?"),
    ("B", "add", "The tests are green."),
    ("A", "started", ""),
    ("A", "window", ""),
    ("A", "forget", "vault"),
    ("B", "recall", "Where is the deploy key?"),
)


class Host:
    """A process with a home folder of its own, which has the memory open."""

    def __init__(self, url: str, namespace: str, home: Path) -> None:
        home.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.stores.hosts", "host", url, namespace]
        env = {**environment(), "HOME": str(home), "XDG_CACHE_HOME": str(home), "TINYMEM_CACHE": ""}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def do(self, verb: str, text: str) -> str:
        """Return the host's answer to a command."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([verb, text]) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def transcript(url: str) -> str:
    """Return what the hosts did and answered, a line each."""
    namespace, lines = f"hosts-{uuid4()}", []
    with tempfile.TemporaryDirectory() as folder:
        hosts = {name: Host(url, namespace, Path(folder, name)) for name in "AB"}
        try:
            for name, verb, text in SCRIPT:
                if verb == "killed":
                    hosts[name].kill()
                    said = "kill -9"
                elif verb == "started":
                    hosts[name] = Host(url, namespace, Path(folder, name))
                    said = "started again, with the home folder it had"
                else:
                    said = f"{verb} {text}".strip() + f"\n     -> {hosts[name].do(verb, text)}"
                lines.append(f"{name}    {said}")
        finally:
            for host in hosts.values():
                host.process.communicate()
            forget_namespace(url, namespace)
    return "\n".join(lines)


def serve(url: str, namespace: str) -> None:
    """Answer commands from standard input until it ends."""
    with HierarchicalMemory(url, namespace=namespace) as memory:
        for line in sys.stdin:
            verb, text = json.loads(line)
            print(_answer(memory, verb, text), flush=True)


def _answer(memory: HierarchicalMemory, verb: str, text: str) -> str:
    if verb == "add":
        return f"step {memory.add(MessageStep('user', text)).step_number}"
    if verb == "window":
        return " / ".join(step.text for step in memory.steps)
    if verb == "forget":
        found = [step.id for step in memory.history() if text in step.text]
        return f"{memory.forget(found)} step forgotten"
    return " / ".join(item.text for item in memory.recall(text, k=1).items) or "nothing"


def main(given: Sequence[str] | None = None) -> None:
    """Print the transcript, or write it into the page."""
    given = sys.argv[1:] if given is None else given
    if given[:1] == ["host"]:
        serve(*given[1:])
        return
    parser = parser_of("benchmarks.stores.hosts", __doc__)
    parser.add_argument("--url", required=True, help="a database, whose tables are made if there are none")
    args = parser.parse_args(given)
    text = f"```text\n{transcript(args.url)}\n```"
    print(text)
    if args.write:
        PAGE.write_text(placed(PAGE.read_text("utf-8"), text, START, END), "utf-8")


if __name__ == "__main__":
    main()
