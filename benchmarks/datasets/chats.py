"""Haystacks from the public files of chats: LoCoMo, REALTALK, LongMemEval and BEAM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tinymem.errors import InputError

__all__ = ["beam", "locomo", "longmemeval", "realtalk"]

Record = dict[str, Any]

LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_TURN = re.compile(r"D:?(\d+):(\d+)")
_BEAM_MARK = re.compile(r"\s*->->\s*[\d,]+\s*$")  # the place in the plan, behind a message of the user


def locomo(path: Path) -> Iterator[Record]:
    """Yield the ten conversations of `locomo10.json`."""
    for at, sample in enumerate(_json(path)):
        name, talk = f"locomo_{at}", sample["conversation"]
        moments = {n: _moment(talk[f"session_{n}_date_time"], "%I:%M %p on %d %B, %Y") for n in _sessions(talk)}
        units, places = _dialogue(talk, lambda turn, n: moments[n], "text")  # noqa: B023 (used at once)
        queries = _questions(name, sample["qa"], places, lambda qa: LOCOMO_TYPES[qa["category"]])
        yield {"id": name, "units": units, "queries": queries}


def realtalk(path: Path) -> Iterator[Record]:
    """Yield the conversations of REALTALK's folder `data`, a file each."""
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        talk = _json(file)
        units, places = _dialogue(talk, lambda turn, n: _realtalk_moment(turn["date_time"]), "clean_text")
        queries = _questions(file.stem, talk["qa"], places, lambda qa: str(qa["category"]))
        yield {"id": file.stem, "units": units, "queries": queries}


def longmemeval(path: Path) -> Iterator[Record]:
    """Yield a haystack for each question of `longmemeval_s.json` that has marked turns, so none for abstentions."""
    for one in _json(path):
        dates = [_moment(re.sub(r"\(\w+\) ", "", date), "%Y/%m/%d %H:%M") for date in one["haystack_dates"]]
        turns = [
            (turn, date, f"s{n}")
            for n, (date, session) in enumerate(zip(dates, one["haystack_sessions"], strict=True))
            for turn in session
        ]
        gold = [f"u{at}" for at, (turn, _, _) in enumerate(turns) if turn.get("has_answer")]
        if not gold or one["question_id"].endswith("_abs"):
            continue
        asked = _moment(re.sub(r"\(\w+\) ", "", one["question_date"]), "%Y/%m/%d %H:%M")
        query = {"id": one["question_id"], "text": one["question"], "type": one["question_type"], "timestamp": asked}
        units = [_unit(at, turn["role"], turn["content"], date, s) for at, (turn, date, s) in enumerate(turns)]
        yield {"id": one["question_id"], "units": units, "queries": [{**query, "gold": gold, **_answer(one)}]}


def beam(path: Path) -> Iterator[Record]:
    """Yield the conversations of one of BEAM's folders, such as `chats/100K`."""
    for folder in sorted((one for one in path.iterdir() if one.is_dir()), key=lambda one: one.name):
        name = f"beam_{path.name}_{folder.name}"
        units: list[Record] = []
        places: dict[int, str] = {}
        for number, batch in enumerate(_json(folder / "chat.json"), 1):
            messages = [message for turn in batch["turns"] for message in turn]
            anchors = [message["time_anchor"] for message in messages if message.get("time_anchor")]
            date = _moment(anchors[0], "%B-%d-%Y") if anchors else None
            for message in messages:
                places[message["id"]] = f"u{len(units)}"
                text = _BEAM_MARK.sub("", message["content"])
                units.append(_unit(len(units), message["role"], text, date, f"s{number}"))
        questions = _json(folder / "probing_questions" / "probing_questions.json")
        queries = []
        for kind in sorted(questions):
            for at, one in enumerate(questions[kind]):
                gold = [places[id] for id in sorted(set(_numbers(one.get("source_chat_ids")))) if id in places]
                if gold:
                    queries.append(
                        {"id": f"{folder.name}_{kind}_{at}", "text": one["question"], "type": kind, "gold": gold}
                    )
        yield {"id": name, "units": units, "queries": queries}


def _dialogue(talk: Mapping[str, Any], when: Any, text: str) -> tuple[list[Record], dict[tuple[int, int], str]]:
    """Return the units of two people's sessions, and the place of each turn by its number in the citations."""
    units: list[Record] = []
    places: dict[tuple[int, int], str] = {}
    for n in _sessions(talk):
        for turn in talk[f"session_{n}"]:
            said = turn[text] or ""
            if caption := turn.get("blip_caption"):
                said = f"{said} [image: {caption}]" if said else f"[image: {caption}]"
            session, number = map(int, _TURN.findall(turn["dia_id"])[0])
            places[session, number] = f"u{len(units)}"
            units.append(_unit(len(units), turn["speaker"], said, when(turn, n), f"s{n}"))
    return units, places


def _questions(name: str, asked: Sequence[Record], places: Mapping[tuple[int, int], str], kind: Any) -> list[Record]:
    """Return the queries whose citations lead to turns."""
    queries = []
    for at, qa in enumerate(asked):
        cited = {(int(n), int(turn)) for text in qa.get("evidence") or () for n, turn in _TURN.findall(text)}
        gold = [places[one] for one in sorted(cited) if one in places]
        if gold:
            query = {"id": f"{name}_qa{at}", "text": qa["question"], "type": kind(qa), "gold": gold}
            queries.append({**query, **_answer(qa)})
    return queries


def _answer(asked: Record) -> Record:
    """Return the published answer, where there is one."""
    return {} if asked.get("answer") is None else {"answer": asked["answer"]}


def _sessions(talk: Mapping[str, Any]) -> list[int]:
    found = (re.fullmatch(r"session_(\d+)", key) for key in talk)
    return sorted(int(one[1]) for one in found if one and talk[one[0]])


def _numbers(value: Any) -> Iterator[int]:
    """Yield the numbers in lists and mappings of any depth."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)


def _unit(at: int, speaker: str, text: str, timestamp: str | None, session: str) -> Record:
    return {"id": f"u{at}", "speaker": speaker, "text": text, "timestamp": timestamp, "session": session}


def _realtalk_moment(text: str) -> str:
    """Read a date, the month first where that can be: wrong for half of the days, but so it is in the set used here."""
    try:
        return _moment(text, "%m.%d.%Y, %H:%M:%S")
    except ValueError:
        return _moment(text, "%d.%m.%Y, %H:%M:%S")


def _moment(text: str, form: str) -> str:
    return datetime.strptime(" ".join(text.split()), form).isoformat()


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
