"""`tinymem-hook`: a process that stays answers in an agent's turn, and an agent goes on without it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_transcripts import claude, result, write

from tinymem import HierarchicalMemory
from tinymem.runs.hooks import quick
from tinymem.runs.hooks.answers import EVENTS, Answers, Asked
from tinymem.runs.hooks.client import ask, start
from tinymem.runs.hooks.warm import asked_of, opener_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sockets of Unix")

PORT = "The staging server is at 10.0.0.7, port 8443."
Hook = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    runtime = Path(tempfile.mkdtemp(dir="/tmp"))  # the names of sockets are short
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield tmp_path / "m"
    shutil.rmtree(runtime)


@pytest.fixture
def hook(memory: Path) -> Hook:
    def calling(event: str, **given: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tinymem.runs.hooks.quick", event, "--path", str(memory), "--namespace", "n"]
        given = {"session_id": "s2", "cwd": "/", **given}
        return subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)

    return calling


def request(memory: Path, event: str, **given: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"namespace": "n", "per_worktree": False, "also": [], "max_tokens": None}
    options["embedder"] = None
    return {"event": event, "path": str(memory), "folder": "/", "input": json.dumps(given), **options}


@pytest.fixture
def warm(memory: Path) -> Iterator[int]:
    """The process of the memory, once it answers."""
    process = start(str(memory), None)
    assert process is not None
    while ask(request(memory, "prompt", prompt="?"), 60) is None:
        assert process.poll() is None, "it has ended"
        time.sleep(0.02)
    yield process.pid
    process.kill()
    process.wait()


def test_what_one_session_said_is_recalled_for_the_prompt_of_another(hook: Hook, warm: int, tmp_path: Path) -> None:
    file = write(tmp_path / "s1.jsonl", [claude("user", PORT), claude("assistant", "Noted.")])
    assert hook("stop", session_id="s1", transcript_path=str(file)).returncode == 0
    asked = {"prompt": "Where is the staging server?"}
    found = ask(request(tmp_path / "m", "prompt", session_id="s2", **asked), 60)
    assert found is not None and PORT in found["out"] and found["error"] == ""
    for has_it in ("s1", "s2"):
        assert ask(request(tmp_path / "m", "prompt", session_id=has_it, **asked), 60) == {"out": "", "error": ""}
    assert ask(request(tmp_path / "m", "prompt", prompt="Bake me a cake with apples."), 60) == {"out": "", "error": ""}
    assert ask(request(tmp_path / "m", "prompt", prompt="/compact"), 60) == {"out": "", "error": ""}
    assert PORT in hook("session-start").stdout
    assert ask(request(tmp_path / "m", "prompt", session_id="s2", **asked), 60) == {"out": "", "error": ""}  # it has it
    for session, greets, count in (("s5", True, 1), ("s5", True, 0), ("s6", False, 0)):  # with a session's first prompt
        bake = {**request(tmp_path / "m", "prompt", session_id=session, prompt="Bake a cake."), "greet": greets}
        assert (ask(bake, 60) or {"out": ""})["out"].count(PORT) == count
    flat = ask({**request(tmp_path / "m", "prompt", session_id="s7", **asked), "flat": True}, 60)
    assert flat is not None and PORT in json.loads(flat["out"])["additionalContext"]


def test_what_an_agent_writes_behind_its_last_hook_is_read_when_another_session_begins(
    warm: int, tmp_path: Path
) -> None:
    def told(event: str, session: str) -> str:
        asked = request(tmp_path / "m", event, session_id=session, prompt="Where is the staging server?")
        found = ask({**asked, "transcript": str(tmp_path / "*.jsonl")}, 60)
        assert found is not None and found["error"] == ""
        return str(found["out"])

    lines = [claude("user", "Hello."), claude("user", PORT), claude("assistant", "Noted.")]
    assert told("prompt", "s1") == told("stop", "s1") == ""  # there is no file yet
    write(tmp_path / "s1.jsonl", lines[:1])
    assert told("session-end", "s1") == ""
    write(tmp_path / "s1.jsonl", lines)
    assert PORT in told("session-start", "s2")


def test_a_tool_that_fails_so_again_or_edits_what_somebody_spoke_of_gets_one_line(
    hook: Hook, warm: int, tmp_path: Path
) -> None:
    missing = "Exit code 1\nModuleNotFoundError: No module named 'yaml'"
    runs = {"pytest": missing, "pip install pyyaml": "Installed.", "pytest -q": "3 passed"}
    lines = [claude("user", "Run the tests. Never edit schema.sql.")]
    for name, said in runs.items():
        lines.append(
            claude("assistant", [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}])
        )
        lines.append(claude("user", [{**result(name, said), "is_error": said is missing}]))
    assert hook("stop", session_id="s1", transcript_path=str(write(tmp_path / "s1.jsonl", lines))).returncode == 0
    failed = {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "hook_event_name": "PostToolUseFailure"}
    edit = {"tool_name": "Edit", "tool_input": {"file_path": "/w/db/schema.sql", "old_string": "a", "new_string": "b"}}
    helped = "pytest failed like this; pytest -q passed in #4, after pip install pyyaml in #3"
    ways = [
        ("post-tool-use-failure", {**failed, "error": missing}, helped),
        ("post-tool-use", {**failed, "tool_response": {"stdout": missing, "stderr": ""}, "session_id": "s3"}, helped),
        (
            "post-tool-use",
            {
                **failed,
                "tool_response": {"llmContent": missing, "returnDisplay": missing[12:]},
                "session_id": "s4",
            },
            helped,
        ),
        (
            "post-tool-use",
            {**failed, "tool_result": {"result_type": "success", "text_result_for_llm": missing}, "session_id": "s5"},
            helped,
        ),
        ("pre-tool-use", edit, "user: Never edit schema.sql."),
    ]
    for event, given, said in ways:
        printed = json.loads(hook(event, **given).stdout)["hookSpecificOutput"]["additionalContext"].split("\n")
        assert len(printed) == 3 and printed[1].endswith(said)
        assert hook(event, **given).stdout == ""  # once
    for event, given, _ in ways[:4]:
        assert hook(event, **given, is_interrupt=True).stdout == ""


@pytest.mark.parametrize("event", quick.ACTING)
def test_nothing_is_started_for_the_use_of_a_tool(hook: Hook, memory: Path, event: str) -> None:
    done = hook(
        event, tool_name="Bash", tool_input={"command": "pytest"}, error="Exit code 1", tool_response="1 failed"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / f"tinymem-{os.getuid()}"
    assert not memory.exists() and not [*folder.glob("*")]


def test_the_first_prompt_is_answered_though_no_process_was_there(
    memory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with HierarchicalMemory(memory, namespace="n") as written:
        written.add_message("user", PORT)
    begun: list[subprocess.Popen[bytes]] = []

    def starting(path: str, embedder: str | None) -> subprocess.Popen[bytes]:
        process = start(path, embedder)
        assert process is not None
        begun.append(process)
        return process

    monkeypatch.setattr(quick, "start", starting)
    monkeypatch.setitem(quick.PATIENCE, "prompt", 120.0)  # on a busy machine too
    monkeypatch.setattr(sys, "argv", ["tinymem-hook", "prompt", "--path", str(memory), "--namespace", "n"])
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"prompt": "Where is the staging server?"})))
    quick.main()
    assert PORT in capsys.readouterr().out
    (process,) = begun
    process.kill()
    process.wait()


@pytest.fixture
def no_process(memory: Path) -> None:
    """None is begun, for the folder of its socket cannot be made."""
    (Path(os.environ["XDG_RUNTIME_DIR"]) / f"tinymem-{os.getuid()}").write_text("", "utf-8")


@pytest.mark.parametrize(
    ("arguments", "given"),
    [(["prompt", "--newer"], b"{}"), (["stop"], b"\xff"), (["other"], b"{}")],
)  # fmt: skip
def test_whatever_is_wrong_is_one_line_and_does_not_stop_an_agent(
    arguments: list[str], given: bytes, memory: Path, no_process: None,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("TINYMEM_PATH", str(memory))
    monkeypatch.setattr(sys, "argv", ["tinymem-hook", *arguments])
    stdin = io.TextIOWrapper(io.BytesIO(given), "utf-8", "surrogateescape")
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(SystemExit) as ended:
        quick.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("tinymem: ") and "failed" not in err


def test_two_hooks_of_one_event_answer_once(tmp_path: Path) -> None:
    with HierarchicalMemory(tmp_path, namespace="shop") as memory:
        memory.add_message("user", PORT)
    prompt = Asked("prompt", {"session_id": "s1", "prompt": "Where is the staging server?"}, "shop")
    begin = Asked("session-start", {"session_id": "s2", "source": "startup"}, "shop")
    with closing(Answers(opener_of(str(tmp_path), None))) as answers:
        for asked in (prompt, begin):
            assert [PORT in answers.answer(asked) for _ in range(3)] == [True, False, False]
        other = Asked("session-start", {"session_id": "s3", "source": "startup"}, "shop")
        assert PORT in answers.answer(other)


@pytest.mark.slow
def test_a_prompt_does_not_wait_where_nobody_answers(hook: Hook, memory: Path, warm: int) -> None:
    os.kill(warm, signal.SIGSTOP)
    try:
        done = hook("prompt", prompt="Where is the staging server?")
    finally:
        os.kill(warm, signal.SIGCONT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_namespaces_beside_it_are_fenced_by_their_names(tmp_path: Path) -> None:
    for namespace, text in (("shop", PORT), ("user", "Staging servers are to be restarted on Mondays.")):
        with HierarchicalMemory(tmp_path, namespace=namespace) as one:
            one.add_message("user", text)
    answers = Answers(opener_of(str(tmp_path), None))
    for also in ([], ["none"]):
        text = answers.answer(Asked("prompt", {"prompt": "Where is the staging server?"}, "shop", also))
        assert "\n#1 user: " in text and "namespace" not in text
    asked = {"prompt": "Where is the staging server?", "session_id": "s1"}
    text = answers.answer(Asked("prompt", asked, "shop", ["user", "none"]))
    shop, user = text.index("[namespace shop]"), text.index("[namespace user]")
    assert shop < text.index(f"\nshop#1 user: {PORT}") < user < text.index("\nuser#1 user: Staging servers")
    greeted = {"session_id": "s2", "source": "startup"}
    assert f"\nshop#1 user: {PORT}" in answers.answer(Asked("session-start", greeted, "shop", ["user"]))
    assert PORT not in answers.answer(Asked("prompt", asked | greeted, "shop", ["user"]))
    answers.close()
    own = {"session-start", "prompt", "pre-compact", "stop", "subagent-stop", "session-end"}
    assert {*EVENTS} - own == {*quick.ACTING} and own < {*EVENTS}


def test_a_reminder_has_the_numbers_that_its_reader_can_open(tmp_path: Path) -> None:
    for namespace in ("shop", "user"):
        with HierarchicalMemory(tmp_path, namespace=namespace) as one:
            one.add_message("user", f"Never edit {namespace}.sql.")
    answers = Answers(opener_of(str(tmp_path), None))
    for number, (also, shown) in enumerate([([], "#1"), (["user"], "shop#1"), ([], "#1")]):
        edit = {"file_path": "/w/shop.sql", "old_string": "a", "new_string": "b"}
        details = {"session_id": f"s{number}", "tool_name": "Edit", "tool_input": edit}
        text = answers.answer(Asked("pre-tool-use", details, "shop", also))
        assert text.splitlines()[1].startswith(f"{shown} ")
    answers.close()


def test_a_session_belongs_to_the_project_that_it_began_in(memory: Path, tmp_path: Path) -> None:
    given = {**request(memory, "prompt", cwd="/"), "namespace": None, "project": str(tmp_path / "shop")}
    asked, elsewhere = asked_of(given), asked_of({**given, "project": None})
    assert asked is not None and asked.namespace.startswith("shop-")
    assert elsewhere is not None and elsewhere.namespace.startswith("root-")
    named = asked_of({**given, "input": '{"session_id": "s7"}', "transcript": "~/state/*/events.jsonl"})
    assert named is not None and named.details["transcript_path"] == "~/state/s7/events.jsonl"
    assert asked_of({**given, "leave_alone": [str(tmp_path / "shop")]}) is None
