"""What hooks keep out of a memory: private text, what is redacted, and projects that are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Run
from test_hooks import Hook
from test_hooks import hook as hook  # the fixture
from test_hooks import tinymem as tinymem  # another, which that one needs
from test_transcripts import claude, write

from tinymem import HierarchicalMemory
from tinymem.errors import InputError
from tinymem.runs.hooks.privacy import is_left_alone, redact_with, without_private


@pytest.mark.parametrize(
    ("text", "left"),
    [("a <private>b</private> c <PRIVATE>d</Private> e", "a [private] c [private] e"),
     ("a <private>b\n<private>c</private>\nd</private> e", "a [private] e"), ("a <private>b\nc", "a [private]"),
     ("a <private>b</private> c</private> d", "a [private] c</private> d"), ("a </private> b", "a </private> b")],
)  # fmt: skip
def test_private_text_goes_with_all_that_is_nested_or_never_closed(text: str, left: str) -> None:
    assert without_private(text) == left


@pytest.mark.parametrize(
    ("text", "secret"),
    [("Authorization: Bearer abc.def-0123456789", "abc.def"), ("postgresql://ann:pear7tree@db/shop", "pear7tree"),
     ('{"api_key": "q1w2e3r4t5"}', "q1w2"), ("export DB_PASSWORD=pear7tree", "pear7tree"), ("AKIA" + "Q7" * 8, "Q7Q7"),
     ("ghp_" + "a1" * 18, "a1a1"),
     ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n\nMIIB\n-----END RSA PRIVATE KEY-----", "MIIB")],
)  # fmt: skip
def test_secrets_of_common_forms_are_redacted(text: str, secret: str) -> None:
    around = f"max_tokens=1000000\n{text}\nThe password was changed."
    left = redact_with(["secrets"])(around)
    assert secret not in left and left.startswith("max_tokens=1000000\n") and left.endswith("The password was changed.")
    assert redact_with([])(around) == around


def test_what_is_private_or_redacted_is_neither_kept_nor_searched_nor_told(hook: Hook, tmp_path: Path) -> None:
    path, options = tmp_path / "m", ["--redact", "secrets", "--redact", "PK-[0-9]+"]
    result = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "PK-70812 <private>blue</private>\nlies in the barn."}
    ]
    call = [{"type": "tool_use", "id": "c1", "name": "find", "input": {"what": "PK-70812"}}]
    lines = [
        claude("user", "The parcel is PK-70812, the gate's code <private>is\nquokka</private>, token=qwertz12345."),
        claude("assistant", call),
        claude("user", result),
        claude("user", "<private>Nobody reads this"),
    ]
    stop = {"session_id": "s1", "transcript_path": str(write(tmp_path / "s1.jsonl", lines))}
    for _ in range(2):
        assert hook("stop", stop, path, *options) == (0, "", "")
    with HierarchicalMemory(path) as memory:
        said = "\n".join(step.text for step in memory.history())
        assert memory.stats().steps == 3 and "lies in the barn" in said
    written = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    for secret in (b"PK-70", b"quokka", b"qwertz", b"blue", b"Nobody"):
        assert secret not in written
    asked = {"session_id": "s2", "prompt": "What do we have in stock? <private>The gate's code?</private>"}
    assert hook("prompt", asked, path, *options).out == ""
    assert "[redacted]" in hook("prompt", asked | {"prompt": "What is the gate's code?"}, path, *options).out


@pytest.mark.parametrize("command", ["ingest", "watch"])
def test_private_text_of_a_file_that_is_added_by_hand_is_not_kept(command: str, tinymem: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = write(tmp_path / "in" / "s1.jsonl", [claude("user", "The gate's code is <private>4711</private>.")])
    given = [str(file)] if command == "ingest" else [str(file.parent), "--once"]
    assert tinymem(command, *given, "--path", str(tmp_path / "m"), "--embedder", "hashing:64").status == 0
    with HierarchicalMemory(tmp_path / "m") as memory:
        assert [step.text for step in memory.history()] == ["The gate's code is [private]."]


def test_nothing_is_kept_where_what_to_redact_is_not_understood(hook: Hook, tmp_path: Path) -> None:
    stop = {"transcript_path": str(write(tmp_path / "s1.jsonl", [claude("user", "A word.")]))}
    done = hook("stop", stop, tmp_path / "m", "--redact", "PK-[")
    assert done.status == 1 and "no regular expression" in done.err and not (tmp_path / "m").exists()
    with pytest.raises(InputError, match="no regular expression"):
        redact_with(["("])


def test_a_project_that_is_left_alone_is_neither_read_nor_kept(hook: Hook, tmp_path: Path) -> None:
    (diary := tmp_path / "diary" / "may").mkdir(parents=True)
    (tmp_path / "link").symlink_to(diary)
    file = write(tmp_path / "s1.jsonl", [claude("user", "The port is 8443.")])
    event = {"session_id": "s1", "transcript_path": str(file), "prompt": "Which port?"}
    hook("stop", event, tmp_path / "m")
    for folder in (diary, tmp_path / "link"):
        for name in ("session-start", "prompt", "stop"):
            here = event | {"session_id": "s2", "cwd": str(folder)}
            assert hook(name, here, tmp_path / ("m" if name != "stop" else "n"), "--leave-alone", "diary").out == ""
    assert not (tmp_path / "n").exists()
    assert "8443" in hook("prompt", event | {"session_id": "s2", "cwd": str(tmp_path)}, tmp_path / "m").out


@pytest.mark.parametrize(
    ("pattern", "is_alone"),
    [("~/clients/*", True), ("ac*", True), ("~/clients/", True), ("clients/acme", False), ("~/client", False)],
)  # fmt: skip
def test_folders_are_left_alone_by_path_or_name(
    pattern: str, is_alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (folder := tmp_path / "clients" / "acme" / "src").mkdir(parents=True)
    assert is_left_alone([folder], [pattern]) is is_alone
