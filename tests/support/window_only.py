"""An agent of examples/ with a plain window for its memory: `python window_only.py MODULE TASK FOLDER MAX_TOKENS`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from tinymem import AgentMemory, MemoryManager, count_tokens, keep_last_n_steps, no_pruning
from tinymem.messages import messages_from_steps, repair


class WindowOnly(MemoryManager):
    """What `HierarchicalMemory` is to the agents, with the newest steps alone, as many as fit: for `keep_last_n_steps`
    there is no better n."""

    scratchpad = AgentMemory()

    def context(self, max_tokens: int) -> SimpleNamespace:
        fitting = []
        for n in range(len(self) + 1):
            messages = repair(messages_from_steps(keep_last_n_steps(n)([*self.steps])))
            if count_tokens(messages) > max_tokens:
                break
            fitting = messages
        return SimpleNamespace(messages=fitting)


if __name__ == "__main__":
    name, task, folder, max_tokens = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
    agent = import_module(name)
    os.chdir(folder)
    hands = [[agent.Tools(".", 60).read_file]] if name == "react_agent" else []
    window = WindowOnly(agent.SYSTEM, no_pruning(), None)
    sys.stdout.write(f"{agent.solve(task, window, *hands, 'scripted', int(max_tokens), 200)}\n")
