"""The inspector: what its server answers and refuses, the page it sends, and the page in a file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commands import Run, child_environment, interruptible
from commands import tinymem as tinymem  # the fixture
from hostile import HOSTILE
from memories import START
from work import PATIENCE

from tinymem import ActionStep, HierarchicalMemory, MessageStep, TaskStep
from tinymem.cli.inspector.page import page, to_json
from tinymem.cli.inspector.snapshot import snapshot
from tinymem.cli.inspector.view import View
from tinymem.cli.shared import listen_at

pytest.importorskip("starlette", reason="the extra inspect is not installed")
pytest.importorskip("uvicorn", reason="the extra inspect is not installed")
pytest.importorskip("httpx", reason="starlette's test client needs it")

from starlette.testclient import TestClient

from tinymem.cli.inspector.server import application, refusal_at

TOKEN = "a-token"
ENDS = "</script><script>alert(1)</script><!-- <script> ]]> \u2028 {{data}}"
Call = Callable[..., Any]


@contextmanager
def made(path: Path) -> Iterator[HierarchicalMemory]:
    """A memory of two sessions, with text that would be markup."""
    with HierarchicalMemory(path, embedder="hashing", store="exact", max_tokens=600) as opened:
        opened.add(TaskStep("Find out where staging runs.", timestamp=START))
        opened.add(ActionStep("Look.", tool_name="ping", observation=ENDS, session="may", timestamp=START))
        opened.add(MessageStep("user", HOSTILE.replace("\ud800", ""), speaker="<b>Ann</b>", timestamp=START))
        opened.add_steps([MessageStep("user", f"Lot {i} has {i * 7} crates.", session="june") for i in range(60)])
        opened.flush()
        opened.medium_term.settle()
        yield opened


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HierarchicalMemory]:
    """One for all tests that only read."""
    with made(tmp_path_factory.mktemp("read") / "memory") as opened:
        yield opened


def client_of(memory: HierarchicalMemory) -> TestClient:
    return TestClient(application(View(memory), TOKEN, {"127.0.0.1"}), base_url="http://127.0.0.1:8000")


@pytest.fixture
def client(memory: HierarchicalMemory) -> TestClient:
    return client_of(memory)


def caller_of(client: TestClient) -> Call:
    def calling(name: str, expect: int = 200, **values: Any) -> Any:
        answer = client.post(f"/api/{name}", json=values, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == expect, answer.text
        return answer.json()

    return calling


@pytest.fixture
def call(client: TestClient) -> Call:
    return caller_of(client)


@pytest.mark.parametrize("query", ["", "?token=a-token2"])
def test_the_page_needs_the_token(client: TestClient, query: str) -> None:
    answer = client.get(f"/{query}")
    assert answer.status_code == 403 and "script" not in answer.text


# -- who is let in


@pytest.mark.parametrize("header", ["", "Bearer wrong"])
def test_every_call_needs_the_token(client: TestClient, header: str) -> None:
    for name in ("overview", "steps", "recall", "forget", "no-such-call"):
        answer = client.post(f"/api/{name}?token={TOKEN}", json={"session": "june"}, headers={"Authorization": header})
        assert answer.status_code == 403 and "june" not in answer.text


@pytest.mark.parametrize("host", ["evil.example:8000", "127.0.0.1.evil.example", ""])
def test_a_request_to_another_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get(f"/?token={TOKEN}", headers={"Host": host})
    assert answer.status_code == 421 and "script" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:8001", "https://127.0.0.1:8000", "null"])
def test_no_other_site_and_no_link_changes_a_memory(
    client: TestClient, memory: HierarchicalMemory, origin: str
) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    for name in ("forget", "correct", "mark"):
        answer = client.post(f"/api/{name}", json={"number": 9}, headers={"Origin": origin, **known})
        assert answer.status_code == 403 and "another site" in answer.json()["error"]
        assert client.get(f"/api/{name}?token={TOKEN}&number=9", headers=known).status_code == 405
    assert memory.stats().steps == 63 and not memory.long_term.corrections
    allowed = client.post("/api/version", json={}, headers={"Origin": "http://127.0.0.1:8000", **known})
    assert allowed.status_code == 200


@pytest.mark.parametrize(("host", "refusal"), [("127.0.0.1", ""), ("0.0.0.0", "Other machines reach this page")])
def test_a_page_that_other_machines_reach_only_reads(memory: HierarchicalMemory, host: str, refusal: str) -> None:
    with listen_at(host, 0) as listener:
        view = View(memory, refusal_at(listener))
    client = TestClient(application(view, TOKEN, {"127.0.0.1"}), base_url="http://127.0.0.1:8000")
    assert caller_of(client)("overview")["refusal"].startswith(refusal)
    error = caller_of(client)("forget", 400, number=99)["error"]
    assert error.startswith(refusal or "no step")


def test_every_answer_forbids_caches_frames_and_other_sources(client: TestClient) -> None:
    for answer in (client.get("/"), client.get(f"/?token={TOKEN}"), client.post("/api/x"), client.get("/nothing")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy


def test_all_of_a_memory_can_be_asked_for(call: Call, memory: HierarchicalMemory) -> None:
    found, stats = call("overview"), memory.stats()
    assert found["steps"] == stats.steps == sum(tier["steps"] for tier in found["tiers"])
    assert [one["session"] for one in found["sessions"]] == [None, "may", "june"]
    assert call("known") == {"speakers": ["<b>Ann</b>"], "tools": ["ping"]}
    found = call("steps", start=10, stop=13)
    assert (found["count"], [line["number"] for line in found["lines"]]) == (63, [11, 12, 13])
    assert call("steps", start=0, stop=9, session="may", tier="archive")["count"] == 1
    assert call("place", number=11, session="june") == {"place": 7}
    assert sum(one["steps"] for one in call("segments")["segments"]) == 63
    found = call("steps", start=0, stop=10, find="70 CRATES")
    assert found["count"] == 1 and "Lot 10" in found["lines"][0]["words"]
    newest = call("episodes", start=0, stop=10)["episodes"][0]
    lines = call("episode", first=newest["first"], last=newest["last"])["lines"]
    assert len(lines) == newest["steps"] > 1 and lines[0]["number"] == newest["first"]


# -- what is answered


def test_a_step_is_opened_whole(call: Call) -> None:
    found = call("step", number=2)
    assert found["parts"][-1]["text"] == ENDS and found["tier"] == "archive" and found["left"]
    assert "no step" in call("step", 400, number=99)["error"]


def test_a_recall_says_what_is_ranked_next(call: Call, memory: HierarchicalMemory) -> None:
    found = call("recall", query="Which lot has 70 crates?", budget=120)
    explained = memory.explain("Which lot has 70 crates?", 120)
    assert [item["step"] for item in found["items"]] == [item.step.step_number for item in explained.items]
    assert found["tokens"] == explained.recalled.tokens <= 120
    assert found["next_best"][0]["step"] == explained.next_best[0].step.step_number and len(found["next_best"]) == 12


def test_a_context_is_shown_message_by_message(call: Call, memory: HierarchicalMemory) -> None:
    found = call("context", query="crates", budget=400)
    built = memory.context("crates", max_tokens=400)
    assert [one["role"] for one in found["parts"]] == [message["role"] for message in built.messages]
    assert found["tokens"] == built.tokens and {"fixed", "window", "recall"} <= {one["tier"] for one in found["parts"]}
    assert "tokens" in call("context", 400, query=None, budget=1)["error"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("memory", {}), ("__init__", {"memory": 1}), ("steps", {}), ("steps", {"start": -1, "stop": 2}),
        ("steps", {"start": 0, "stop": 2, "evil": 1}), ("segments", {"tier": "up"}), ("forget", {"session": "june"}),
        ("recall", {"query": "x", "budget": 0}), ("recall", {"query": "x", "budget": 9, "until": "soon"}),
        ("forget", {"number": 99}), ("forget", {"number": [8, 9]}), ("forget", {"number": None}),
        ("correct", {"number": 9, "text": " "}), ("correct", {"number": 9, "text": {"role": "user"}}),
        ("mark", {"number": 9, "milestone": "yes"}),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_in_words(call: Call, memory: HierarchicalMemory, name: str, values: Any) -> None:
    assert call(name, 400, **values)["error"]
    assert memory.stats().steps == 63


def test_what_another_process_adds_and_notes_is_shown(tmp_path: Path) -> None:
    with made(tmp_path / "memory") as memory, HierarchicalMemory(memory.path, create=False) as other:
        call = caller_of(client_of(memory))
        before = call("overview")
        assert before["scratchpad"] == ""
        other.scratchpad.store("quay", 9)
        assert "- quay: 9" in call("overview")["scratchpad"]
        other.add_message("user", "From elsewhere.")
        assert call("version")["version"] != before["version"]
        assert call("steps", start=63, stop=99)["lines"][0]["words"] == "From elsewhere."


# -- what is changed


def test_a_statement_is_corrected_marked_and_forgotten(tmp_path: Path) -> None:
    with made(tmp_path / "memory") as memory:
        call = caller_of(client_of(memory))
        versions = [call("version")["version"]]
        for name, values in (
            ("correct", {"number": 11, "text": "Lot 7 has 50 crates."}),
            ("correct", {"number": 64, "text": "Lot 7 has 51 crates."}),
            ("mark", {"number": 11, "milestone": True}),
        ):
            call(name, **values)
            versions.append(call("version")["version"])
        opened = [call("step", number=number) for number in (11, 64, 65, 12)]
        assert [[line["number"] for line in step["history"]] for step in opened] == [[11, 64, 65]] * 3 + [[]]
        assert opened[0]["milestone"] and opened[0]["history"][-1]["words"] == "Lot 7 has 51 crates."
        assert "51" in str(call("recall", query="How many crates has lot 7?", budget=300)["items"][0]["text"])
        assert call("forget", number=65) == {"forgotten": 1}
        assert sorted({*versions, call("version")["version"]}) == [*versions, call("version")["version"]]
        assert "no step" in call("step", 400, number=65)["error"]
        assert [line["number"] for line in call("step", number=11)["history"]] == [11, 64]


@pytest.mark.permissions
def test_a_memory_that_may_only_be_read_says_why_nothing_can_be_changed(tmp_path: Path) -> None:
    with made(tmp_path / "memory"):
        pass
    for path in (tmp_path / "memory", *(tmp_path / "memory").rglob("*")):
        path.chmod(path.stat().st_mode & 0o555)
    with HierarchicalMemory(tmp_path / "memory", create=False) as memory:
        call = caller_of(client_of(memory))
        assert "make its folder and the files in it writable" in call("overview")["refusal"]
        assert call("forget", 400, number=1)["error"] == call("overview")["refusal"]


# -- the page


class Elements(HTMLParser):
    """The elements of a page: their attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.texts:
            self.texts[self._inside][-1] += data


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_policy_lets_in_exactly_what_stands_in_the_page(client: TestClient) -> None:
    answer = client.get(f"/?token={TOKEN}")
    seen = Elements(answer.text)
    data, program = seen.texts["script"]
    (style,) = seen.texts["style"]
    policy = answer.headers["content-security-policy"]
    assert f"script-src {hashed(program)};" in policy and f"style-src {hashed(style)};" in policy
    assert json.loads(data) is None and "connect-src 'self'" in policy
    assert TOKEN not in answer.text


def test_the_page_names_no_other_place_and_makes_no_markup_of_text(client: TestClient) -> None:
    text = client.get(f"/?token={TOKEN}").text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|url\(", text)
    seen = Elements(text)
    for tag, attributes in seen.found:
        assert not attributes.keys() & {"src", "style"} and not any(name.startswith("on") for name in attributes), tag
        assert (attributes.get("href") or "#").startswith(("#", "data:")), tag
    wrong = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
    assert not re.search(wrong, seen.texts["script"][1])


def test_a_file_holds_its_data_and_no_text_can_end_it(memory: HierarchicalMemory) -> None:
    data = snapshot(View(memory), 1_000, ["Which lot has 70 crates?", ENDS])
    seen = Elements(page(data))
    assert len(seen.texts["script"]) == 2
    assert json.loads(seen.texts["script"][0]) == json.loads(to_json(data))
    assert json.loads(seen.texts["script"][0])["steps"][1]["parts"][-1]["text"] == ENDS
    (policy,) = (one["content"] for _, one in seen.found if one.get("http-equiv") == "Content-Security-Policy")
    assert policy and hashed(seen.texts["script"][1]) in policy and "connect-src 'none'" in policy


# -- the commands


def test_html_writes_a_file_for_its_owner(tinymem: Run, memory: HierarchicalMemory, tmp_path: Path) -> None:
    place = ("--path", str(memory.path))
    done = tinymem("inspect", "--html", "page.html", "--ask", "Where is staging?", "--steps", "7", *place)
    assert (done.status, done.out) == (0, "Wrote 7 of 63 steps to page.html.\n")
    written = tmp_path / "page.html"
    assert "Where is staging?" in written.read_text("utf-8")
    assert os.name != "posix" or written.stat().st_mode & 0o777 == 0o600
    assert tinymem("inspect", "--html", "no/such/folder.html", *place).status == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_web_serves_until_it_is_interrupted(memory: HierarchicalMemory) -> None:
    command = [*interruptible(), "inspect", "--path", str(memory.path)]
    with subprocess.Popen(command, env=child_environment(), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        where = running.stderr.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", where)
        with urllib.request.urlopen(where) as answer:
            assert b"tinymem" in answer.read()
        running.send_signal(2)
        written = running.stderr.read()
        assert running.wait(PATIENCE) in (0, 130) and "Traceback" not in written


def test_a_number_that_json_has_not_is_text() -> None:
    assert to_json({"a": [float("nan"), float("-inf"), "NaN", 1.5]}) == '{"a":["NaN","-Infinity","NaN",1.5]}'
