"""`tinymem doctor` and `tinymem rebuild`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Done, Run
from commands import tinymem as tinymem  # the fixture
from test_doctor import DAMAGES, made


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return made(tmp_path / "memory")


@pytest.mark.slow
def test_on_the_command_line_the_status_says_whether_it_is_sound(memory: Path, tinymem: Run) -> None:
    at = ("--path", str(memory))
    done = tinymem("doctor", *at)
    assert done.status == 0
    assert done.out == "Sound: 1,200 steps, 1,200 passages, 1,200 terms, 64 dimensions, 1,200 in index.\n"
    DAMAGES["ids removed"](memory)
    done = tinymem("doctor", *at)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("the index has 1190 vectors, and should have 1200 -> make again what is derived")
    told = json.loads(tinymem("doctor", *at, "--json").out)
    assert (told["sound"], len(told["findings"]), told["counts"]["in_index"]) == (False, 1, 1_200)
    assert tinymem("rebuild", *at) == Done(0, "The index was made again, of 1,200 vectors.\n", "")
    assert tinymem("rebuild", *at, "--json") == Done(0, '{"vectors": 1200}\n', "")
    assert tinymem("doctor", *at).status == 0
