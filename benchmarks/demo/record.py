"""Records the agent run that `tinymem demo` replays, by really doing it.

    python -m benchmarks.demo.record [--out tinymem/data/demo.jsonl]

The agent is a script: what it thinks and types stands in `benchmarks/demo/*.sh`. What it sees is not: every command
runs in a shell of its own, in a fresh folder with a clean environment, and what it prints (both streams, in order)
and how it exits is what is recorded. The one edit is that the folder's path and the interpreter's read `/srv/lendery`
and `/usr`, so that a recording names no machine; a recording that would name one all the same is refused. Timings and
versions are those of the machine it was made on. It takes two minutes and needs bash, git, awk and ports 8417 and 8418.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.demo import fixture

SCRIPTS = Path(__file__).parent
OUT = Path(__file__).parents[2] / "tinymem" / "data" / "demo.jsonl"
SHOWN_FOLDER = "/srv/lendery"
TIMEOUT = 120
SYSTEM = (
    "You are a careful software engineer with one tool, bash. Every command runs in a new shell in the project's "
    "folder. Say in a sentence or two what you are about to do and why, then make one call."
)
TASK = (
    "Our tool-lending library has to leave its old system. Build its replacement, a small inventory service named "
    "lendery, in Python and SQLite with nothing but the standard library: import the exports, lend and return tools, "
    "an HTTP API for the branches, reports. exports/ holds the data and NOTES.txt what the last maintainer left. Keep "
    "it tested, commit as you go, and keep track of what you find: we will ask."
)


@dataclass(frozen=True)
class Turn:
    """One entry of the script: what the agent thinks and types, or (`command` empty) just something that is said."""

    role: str
    said: str
    command: str = ""


def read_script(text: str) -> Iterator[Turn]:
    """The turns of a script: `#: ` lines are a thought, `#> ` lines the user's, what follows a thought its command."""
    for part in re.findall(r"(?m)^((?:#: .*\n)+|(?:#> .*\n)+)((?:(?!#[:>] ).*\n)*)", text):
        said = " ".join(line[3:] for line in part[0].splitlines())
        yield Turn("user" if part[0].startswith("#>") else "assistant", said, part[1].strip())


def script() -> list[Turn]:
    """The whole run, all chapters in order."""
    chapters = sorted(SCRIPTS.glob("*.sh"))
    return [turn for chapter in chapters for turn in read_script(chapter.read_text(encoding="utf-8"))]


def environment(home: Path) -> dict[str, str]:
    """Return the environment of every command, the same on every machine: locale, time zone, dates, hash seed."""
    shims = home / "bin"
    shims.mkdir()
    (shims / "python").symlink_to(sys.executable)
    moment = "2024-06-03T09:00:00+0000"
    return {
        "PATH": f"{shims}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home),
        "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "100", "NO_COLOR": "1",
        "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(home.parent),
        "GIT_AUTHOR_NAME": "agent", "GIT_AUTHOR_EMAIL": "agent@lendery.example", "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_NAME": "agent", "GIT_COMMITTER_EMAIL": "agent@lendery.example", "GIT_COMMITTER_DATE": moment,
    }  # fmt: skip


class Workplace:
    """A fresh folder with the fixture in it, where commands run."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "lendery"
        self.folder.mkdir()
        home = root / "home"
        home.mkdir()
        fixture.build(self.folder)
        self.environment = environment(home)
        bases = {str(Path(base).resolve()) for base in (sys.prefix, sys.base_prefix)}
        self.edits = [(str(self.folder.resolve()), SHOWN_FOLDER), (str(self.folder), SHOWN_FOLDER)]
        self.edits += [(base, "/usr") for base in sorted(bases, key=len, reverse=True)]

    def run(self, command: str) -> str:
        """Return the output of `command`, both streams as they come, and its exit status unless that is 0."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        text = done.stdout.decode("utf-8", errors="replace")
        for path, shown in self.edits:
            text = text.replace(path, shown)
        return text if done.returncode == 0 else f"{text.rstrip()}\n[exit status {done.returncode}]".lstrip()


def record(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    """The run as OpenAI messages, each as soon as it is there."""
    yield {"role": "system", "content": SYSTEM}
    yield {"role": "user", "content": TASK}
    with tempfile.TemporaryDirectory(prefix="record-") as root:
        workplace = Workplace(Path(root))
        for number, turn in enumerate(turns):
            if not turn.command:
                yield {"role": turn.role, "content": turn.said}
                continue
            call = {"name": "bash", "arguments": json.dumps({"command": turn.command}, ensure_ascii=False)}
            name = f"call_{number:03d}"
            yield {
                "role": "assistant",
                "content": turn.said,
                "tool_calls": [{"id": name, "type": "function", "function": call}],
            }
            yield {"role": "tool", "tool_call_id": name, "content": workplace.run(turn.command)}


def leaks(text: str) -> list[str]:
    """Return the names of the machine or the person that stand in `text`."""
    names = {str(Path.home()), socket.gethostname(), tempfile.gettempdir() + "/", os.getcwd(), sys.prefix}
    user = getpass.getuser()
    found = {name for name in names if len(name) > 1 and name in text}
    return sorted(found | ({user} if re.search(rf"\b{re.escape(user)}\b", text) else set()))


def main(given: Sequence[str] | None = None) -> None:
    """Record and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the file to write (default: %(default)s)")
    parser.add_argument("--show", action="store_true", help="print every step as it is made")
    options = parser.parse_args(given)
    if missing := [tool for tool in ("bash", "git", "sha256sum", "awk") if shutil.which(tool) is None]:
        sys.exit(f"the recording needs {', '.join(missing)}")
    lines = []
    for message in record(script()):
        lines.append(json.dumps(message, ensure_ascii=False))
        if options.show:
            print(f"--- {message['role']}\n{message['content']}")
    text = "\n".join(lines) + "\n"
    if found := leaks(text):
        sys.exit(f"not written, the recording names {', '.join(found)}")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    print(f"{len(lines)} messages, {len(text):,} bytes: {options.out}")


if __name__ == "__main__":
    main()
