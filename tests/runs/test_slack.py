"""Text of Slack as people read it, and who said it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tinymem.runs import Run, read_runs

USERS = [{"id": "U1", "profile": {"display_name": "Ann"}}, {"id": "U2", "real_name": "Bob"},
         {"id": "U3", "profile": {"display_name": "Kim"}}, {"id": "U4", "real_name": "Kim"}]  # fmt: skip


def read(folder: Path, *entries: dict[str, Any]) -> Run:
    (folder / "dairy").mkdir(exist_ok=True)
    (folder / "users.json").write_text(json.dumps(USERS), encoding="utf-8")
    (folder / "channels.json").write_text(json.dumps([{"id": "C1", "name": "dairy"}]), encoding="utf-8")
    said = [
        {"type": "message", "ts": f"17676000{at:02d}.0001", "user": "U1", **entry} for at, entry in enumerate(entries)
    ]
    (folder / "dairy" / "2026-01-05.json").write_text(json.dumps(said), encoding="utf-8")
    (run,) = read_runs(folder)
    return run


def rich(*elements: dict[str, Any], kind: str = "rich_text_section", **more: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "rich_text", "elements": [{"type": kind, "elements": [*elements], **more}]}]}


WORDS = {"type": "text", "text": "salt < 3"}
LIST = rich(*({"type": "rich_text_section", "elements": [{"type": "text", "text": text}]} for text in ("hay", "oats")),
            kind="rich_text_list", style="ordered")  # fmt: skip
SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "entities": ({"text": "a &gt; b &amp;&amp; c &lt; d"}, "a > b && c < d"),
    "typed markup": ({"text": "&lt;@U1&gt; and &amp;lt;"}, "<@U1> and &lt;"),
    "people": ({"text": "<@U2> <@U9|zoe> <@U8>"}, "@Bob @zoe @U8"),
    "places": ({"text": "<#C1> <#C2|mill> <!here> <!subteam^S1|@vets>"}, "#dairy #mill @here @vets"),
    "dates": ({"text": "<!date^1^{date}|Monday>"}, "Monday"),
    "links": ({"text": "<https://a.example?x=1&amp;y=2|the guide> <mailto:a@b.example|a@b.example> <https://c.example>"},
              "the guide (https://a.example?x=1&y=2) a@b.example https://c.example"),
    "rich text": (rich(WORDS, {"type": "emoji", "name": "cow"}, {"type": "channel", "channel_id": "C1"}), "salt < 3"),
    "a list": (LIST, "hay oats"),
    "a quote": (rich(WORDS, kind="rich_text_quote"), "salt < 3"),
    "a block beside its text": ({"text": "salt &lt; 3", **rich(WORDS)}, "salt < 3"),
    "blocks of a program": ({"text": "Alarm", "blocks": [
        {"type": "header", "text": {"type": "plain_text", "text": "Vat <6>"}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "9 &lt; 10"}]}]}, "Alarm\nVat <6>\n9 < 10"),
    "an attachment": ({"text": "", "attachments": [
        {"title": "Alarm", "text": "9.1 bar", "fields": [{"title": "vat", "value": "6"}], "fallback": "Alarm"}]},
        "Alarm 9.1 bar vat 6"),
    "a comment on a file": ({"subtype": "file_comment", "text": "Ann commented: 2 bar"}, "Ann commented: 2 bar"),
    "only a fallback": ({"attachments": [{"fallback": "9.1 bar"}]}, "9.1 bar"),
    "a forwarded message": ({"attachments": [{"message_blocks": [{"message": rich(WORDS)}]}]}, "salt < 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_message_reads_as_people_read_it(name: str, tmp_path: Path) -> None:
    entry, text = SHOWN[name]
    (step,) = read(tmp_path, entry).steps
    assert (step.speaker, step.text) == ("Ann", text)


def test_nobody_speaks_under_the_name_of_another(tmp_path: Path) -> None:
    run = read(tmp_path, {"text": "a", "user": "U3"}, {"text": "b", "user": "U4"},
               {"text": "c", "user": None, "subtype": "bot_message", "username": "Ann", "bot_id": "B1"},
               {"text": "d", "user": "U9", "user_profile": {"real_name": "Zoe"}})  # fmt: skip
    assert [step.speaker for step in run.steps] == ["Kim (U3)", "Kim (U4)", "Ann (B1)", "Zoe (U9)"]


def test_replies_stand_behind_what_they_answer(tmp_path: Path) -> None:
    asked = "1767600000.0001"
    run = read(tmp_path, {"text": "Who?", "thread_ts": asked}, {"text": "Lunch."}, {"text": "Me.", "thread_ts": asked})
    assert [step.text for step in run.steps] == ["Who?", "Me.", "Lunch."]


def test_names_that_hold_mentions_do_not_grow(tmp_path: Path) -> None:
    users = [{"id": f"U{at}", "name": f"<@U{at + 1}>" * 9} for at in range(40)]
    (tmp_path / "dairy").mkdir()
    (tmp_path / "users.json").write_text(json.dumps(users), encoding="utf-8")
    said = [{"type": "message", "ts": "1767600000.1", "user": "U1", "text": "<@U0>" * 5}]
    (tmp_path / "dairy" / "2026-01-05.json").write_text(json.dumps(said), encoding="utf-8")
    ((step,),) = [run.steps for run in read_runs(tmp_path)]
    assert len(step.text) < 1_000


def test_a_day_that_is_damaged_costs_that_day(tmp_path: Path) -> None:
    read(tmp_path, {"text": "Hello"})
    for day, text in (("06", "[{"), ("07", "7"), ("08", "[[], null]")):
        (tmp_path / "dairy" / f"2026-01-{day}.json").write_text(text, encoding="utf-8")
    (run,) = read_runs(tmp_path, left_out=(left_out := Counter[str]()))
    damaged = {"file that is damaged (dairy/2026-01-06.json)": 1, "entry without a message": 3}
    assert len(run.steps) == 1 and left_out == damaged
