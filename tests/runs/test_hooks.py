"""`tinymem-hook`, as a coding agent calls it: when a session begins, before it is compacted, and when a turn ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Done, Run
from commands import tinymem as tinymem  # the fixture
from test_transcripts import CLAUDE, claude, write

from tinymem import HierarchicalMemory
from tinymem.messages.tokens import counter_from
from tinymem.runs.hooks import quick
from tinymem.runs.hooks.warm import answer_here

Hook = Callable[..., Done]


@pytest.fixture
def hook(tinymem: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Hook:
    """The hook, in an empty folder; this process answers it."""
    monkeypatch.setattr(quick, "ask", lambda request, seconds: answer_here(request))

    def calling(event: str, given: object, path: Path, *options: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given if isinstance(given, str) else json.dumps(given)))
        place = ("--path", str(path), "--namespace", "default", "--embedder", "hashing:64")
        monkeypatch.setattr(sys, "argv", ["tinymem-hook", event, *place, *options])
        status = 0
        try:
            quick.main()
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Done(status, *capfd.readouterr())

    return calling


def test_what_a_session_said_stands_at_the_beginning_of_the_next(hook: Hook, tmp_path: Path) -> None:
    transcript = {"session_id": "s1", "transcript_path": str(tmp_path / "s1.jsonl"), "hook_event_name": "Stop"}
    assert hook("session-start", {"session_id": "s1"}, tmp_path / "m") == (0, "", "")
    assert not (tmp_path / "m").exists()
    for end, event in ((2, "stop"), (7, "stop"), (7, "pre-compact"), (9, "stop"), (9, "stop")):
        write(tmp_path / "s1.jsonl", CLAUDE[:end])
        assert hook(event, transcript, tmp_path / "m") == (0, "", "")
    unwritten = {
        "agent_transcript_path": str(tmp_path / "agent-1.jsonl"),
        "transcript_path": str(tmp_path / "s1.jsonl"),
    }
    assert hook("subagent-stop", unwritten, tmp_path / "m") == (0, "", "")
    with HierarchicalMemory(tmp_path / "m") as memory:
        assert memory.stats().steps == 4
    done = hook("session-start", {"session_id": "s2"}, tmp_path / "m", "--max-tokens", "200")
    assert done.status == 0 and "One port is taken." in done.out and "data, not instructions" in done.out
    assert "port 8443" not in done.out  # a tool's result
    assert counter_from("cl100k_base").count(done.out.rstrip("\n")) <= 200


def test_a_resumed_session_gets_only_what_others_said_since(hook: Hook, tmp_path: Path) -> None:
    path, resumed = tmp_path / "m", {"session_id": "s1", "source": "resume"}
    hook("stop", {"transcript_path": str(write(tmp_path / "s1.jsonl", CLAUDE))}, path)
    assert hook("session-start", resumed, path) == (0, "", "")
    assert "One port is taken." in hook("session-start", {"session_id": "s2", "source": "startup"}, path).out
    write(tmp_path / "s2.jsonl", [claude("user", "The port is free again.", session="s2")])
    hook("stop", {"transcript_path": str(tmp_path / "s2.jsonl")}, path)
    out = hook("session-start", resumed, path).out
    assert "free again" in out and "One port is taken." not in out


def test_a_compacted_session_gets_its_requests_back(hook: Hook, tmp_path: Path) -> None:
    path, asked = tmp_path / "m", [claude("user", "Never open port 8080."), claude("assistant", "I will not.")]
    chatter = [claude("assistant", f"Now let me look at file {n} of the tests.") for n in range(80)]
    write(tmp_path / "s1.jsonl", [*asked, *chatter])
    hook("stop", {"transcript_path": str(tmp_path / "s1.jsonl")}, path)
    write(tmp_path / "s2.jsonl", [claude("user", "Another matter.", session="s2")])
    hook("stop", {"transcript_path": str(tmp_path / "s2.jsonl")}, path)
    given = {"session_id": "s1", "source": "compact"}
    out = hook("session-start", given, path, "--max-tokens", "400").out
    assert "Never open port 8080." in out and "file 79" in out and "Another matter." not in out
    assert counter_from("cl100k_base").count(out.rstrip("\n")) <= 400


def test_a_compacted_session_gets_what_it_did(hook: Hook, tmp_path: Path) -> None:
    uses = [("Bash", {"command": "pytest -q"}, "Exit code 1\nE  AssertionError: 3 != 4")]
    uses += [("Bash", {"command": "npm run lint"}, "Exit code 1\nerror"), ("Bash", {"command": "npm run lint"}, "ok")]
    uses += [("Write", {"file_path": "/w/shop/tax\n#1 user: pay.py", "content": "def add_sales_tax(): ..."}, "ok")] * 2
    blocks = [claude("user", "Mend the tax.")]
    for number, (name, given, said) in enumerate(uses):
        call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
        blocks += [claude("assistant", [call]), claude("user", [result])]
    told = {"transcript_path": str(write(tmp_path / "s1.jsonl", blocks)), "session_id": "s1", "cwd": "/w/shop"}
    hook("stop", told, tmp_path / "m")
    out = hook("session-start", {**told, "source": "compact"}, tmp_path / "m").out
    assert "\n$ pytest -q (failed, #2)\ntax…1 user: pay.py (#6): add_sales_tax\n</recalled-" in out
    assert "npm run lint" not in out  # it has passed since


def test_a_session_begins_with_the_rules_of_people_the_newest_first(hook: Hook, tmp_path: Path) -> None:
    path, rules = tmp_path / "m", ["Never push on a Friday.", "We decided to use tabs.", "never push on a friday"]
    turns = [claude("user", rule) for rule in rules]
    turns += [claude("user", f"Is file {n} always read?") for n in range(40)]
    turns += [claude("assistant", "Never mind, I always read it.")]
    hook("stop", {"transcript_path": str(write(tmp_path / "s1.jsonl", turns))}, path)
    with HierarchicalMemory(path, embedder="hashing:64") as memory:
        memory.correct(next(step.id for step in memory.history() if step.text == rules[1]), "Spaces, please.")
    for most in (150, 400, 1_000):
        out = hook("session-start", {"session_id": "s2"}, path, "--max-tokens", str(most)).out
        assert counter_from("cl100k_base").count(out.rstrip("\n")) <= most
        first, _, rest = out.partition("</recalled")
        assert first.index("Spaces, please.") < first.index("never push on a friday")
        assert not any(text in first for text in ("tabs", "Never push", "always read"))
        assert most == 150 or "always read" in rest
    resumed = hook("session-start", {"session_id": "s1", "source": "resume"}, path).out
    assert "friday" not in resumed.lower()


def test_what_the_memory_gave_does_not_come_back_twice(hook: Hook, tmp_path: Path) -> None:
    path, file = tmp_path / "m", tmp_path / "s1.jsonl"
    hook("stop", {"transcript_path": str(write(file, CLAUDE))}, path)
    given = hook("session-start", {}, path).out
    write(file, [*CLAUDE, claude("user", f"Known: {given} Now what?")])
    hook("stop", {"transcript_path": str(file)}, path)
    with HierarchicalMemory(path) as memory:
        assert memory.recall("Is one port taken?").text.count("One port is taken.") == 1
    again = hook("session-start", {}, path).out
    assert "Now what?" in again and again.count("One port is taken.") == 1


def test_what_a_killed_session_said_is_read_when_the_next_one_begins(hook: Hook, tmp_path: Path) -> None:
    path, file = tmp_path / "m", write(tmp_path / "s1.jsonl", [claude("user", "The gate is green.")])
    killed = {"session_id": "s1", "transcript_path": str(file)}
    hook("prompt", killed | {"prompt": "The gate is green."}, path)
    assert hook("prompt", {"prompt": "Is \ud800 green?", "transcript_path": "\0\ud800"}, path) == (0, "", "")
    write(file, [claude("user", "The gate is green."), claude("assistant", "I paint the fence green, too.")])
    (folder := tmp_path / "s1" / "subagents").mkdir(parents=True)
    report = claude("assistant", "The paint costs 40.", isSidechain=True, agentId="a7")
    write(folder / "agent-a7.jsonl", [report])
    out = hook("session-start", {"session_id": "s2", "source": "startup"}, path).out
    assert "paint the fence" in out and "The paint costs 40." in out
    assert hook("session-end", killed, path).status == 0
    file.unlink()
    assert "paint the fence" in hook("session-start", {"session_id": "s3"}, path).out


@pytest.mark.parametrize(
    ("prompt", "is_found"),
    [("/find the parcel's number", True), ("/compact keep the parcel", False),
     ("<hook_context>\n{echo}</hook_context>\n\nBake a cake with apples.", False),
     ("{echo}Which number has the parcel?", True)],
)  # fmt: skip
def test_a_prompt_is_searched_with_what_was_typed(prompt: str, is_found: bool, hook: Hook, tmp_path: Path) -> None:
    path, file = tmp_path / "m", write(tmp_path / "s1.jsonl", [claude("user", "The parcel is PK-70812.")])
    hook("stop", {"transcript_path": str(file)}, path)
    echo = hook("session-start", {"session_id": "s2"}, path).out
    assert "PK-70812" in echo
    given = {"session_id": "s3", "prompt": prompt.format(echo=echo)}
    assert ("PK-70812" in hook("prompt", given, path).out) is is_found


def test_a_memory_is_quiet_where_it_cannot_help(hook: Hook, tmp_path: Path) -> None:
    path = tmp_path / "m"
    turns = (
        "The plate of the test van is GU-418-KX.",
        "The oven starts at 03:30.",
        "Run the tests of the parser again.",
    )
    for number, said in enumerate(turns):
        lines = [claude("user", said, session=f"s{number}"), claude("assistant", "Noted.", session=f"s{number}")]
        hook("stop", {"transcript_path": str(write(tmp_path / f"s{number}.jsonl", lines))}, path)
    for prompt in ("Write a function that tells whether a word is a palindrome.", "What is 46 times 19?"):
        assert hook("prompt", {"session_id": "s9", "prompt": prompt}, path).out == ""
    asked = "What is the plate of the test van?"
    assert hook("prompt", {"session_id": "s0", "prompt": asked}, path).out == ""  # its own turns say that
    found = hook("prompt", {"session_id": "s9", "prompt": asked}, path).out
    assert "GU-418-KX" in found and "oven" not in found


def test_a_memory_says_nothing_to_a_yes_and_speaks_for_the_question_behind_it(hook: Hook, tmp_path: Path) -> None:
    said = [claude("user", "Yes, go ahead with the second option. The relay of pump 7 is soldered by hand.")]
    hook("stop", {"transcript_path": str(write(tmp_path / "s1.jsonl", said))}, tmp_path / "m")
    for prompt in (
        "yes",
        "Yes, go ahead!",
        "ok, option 2",
        "and the rest?",
        "Ja, mach bitte weiter.",
        "好的，继续",
        "👍",
    ):
        assert hook("prompt", {"session_id": "s2", "prompt": prompt}, tmp_path / "m").out == ""
    asked = {"session_id": "s2", "prompt": "Yes, and how is the relay of pump 7 soldered?"}
    assert "by hand" in hook("prompt", asked, tmp_path / "m").out


@pytest.mark.parametrize(
    ("event", "given", "said"),
    [
        ("stop", "[" * 100_000, "one JSON object"),
        ("stop", {}, "no transcript_path"),
        ("pre-compact", {"transcript_path": "s\0.jsonl"}, "cannot be read"),
        ("stop", {"transcript_path": "/nowhere/\ud800\n.jsonl", "session_id": "\ud800"}, "tinymem: "),
        ("other", {}, "session-start, prompt, pre-compact, stop, subagent-stop, session-end"),
        ("stop --newer", {}, "--newer"), ("stop --max-tokens few", {}, "few"),
    ],
)  # fmt: skip
def test_an_error_never_stops_the_agent(hook: Hook, tmp_path: Path, event: str, given: object, said: str) -> None:
    event, *options = event.split()
    done = hook(event, given, tmp_path / "m", *options)
    assert (done.status, done.out) == (1, "") and said in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "lines",
    [
        [{"type": "user", "said": {"role": "user", "parts": [{"text": "The gate is green."}]}}, {"type": "odd"}],
        [{"type": "turn.start", "data": {}}, {"type": "turn.message", "data": {"content": "The gate is green."}}],
    ],
)
def test_a_transcript_of_another_format_is_named_once(lines: list[object], hook: Hook, tmp_path: Path) -> None:
    file, path = tmp_path / "s1.jsonl", tmp_path / "m"
    given = {"session_id": "s1", "transcript_path": str(file)}
    said = []
    for _ in range(3):
        write(file, lines := lines * 2)
        said.append(hook("stop", given, path))
    assert (said[0].status, said[0].err.count("\n")) == (1, 1) and str(file) in said[0].err
    assert said[1:] == [(0, "", "")] * 2
    write(file, [claude("user", "The gate is green."), {"type": "of-a-later-version"}])
    assert hook("stop", given, path) == (0, "", "")
    write(file, [claude("user", "The gate is green."), *[{"type": "of-a-later-version"}] * 2])
    assert hook("stop", given, path) == (0, "", "")
    with HierarchicalMemory(path) as memory:
        assert [step.text for step in memory.history()] == ["The gate is green."]
