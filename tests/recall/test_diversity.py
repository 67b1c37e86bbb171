"""Repetitions: what repeats something that was taken is not taken again."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from strategies import MODERATE

from tinymem.recall.selection.diversity import DIVERSITY, SHORT, Utterance, wording
from tinymem.recall.selection.packing import Repetitions

LISTING = "total 24 drwxr-xr-x 5 ana staff 160 Mar 3 10:12 src -rw-r--r-- 1 ana staff 1071 Mar 3 10:12 setup.cfg"


def taken(*said: str, diversity: float = DIVERSITY) -> list[bool]:
    repetitions = Repetitions(diversity)
    return [repetitions.take(Utterance(text)) for text in said]


def words(*numbers: int) -> str:
    return " ".join(f"word{number:08}" for number in numbers)


def test_a_repetition_is_not_taken_again() -> None:
    assert taken(LISTING, LISTING, f"{LISTING} ", LISTING.replace(" ", "\n").upper()) == [True, False, False, False]


def test_a_list_with_another_number_is_no_repetition() -> None:
    assert taken(LISTING, LISTING.replace("1071", "1072").replace("160", "224")) == [True, True]


def test_a_short_text_is_a_repetition_where_its_words_are_the_same() -> None:
    short = "ERROR: the pool of connections is used up"
    assert len(short) < SHORT
    assert taken(short, short, short.replace(" ", "\n").lower()) == [True, False, False]
    assert taken(short, f"{short}!", short.replace("pool", "list")) == [True, False, True]
    assert taken(short, short, diversity=0) == [True, True]


def test_neither_case_nor_punctuation_around_words_makes_a_difference_and_everything_else_does() -> None:
    assert {wording(text) for text in ("ok", "ok.", "OK", "Ok!", " ok... ", '"OK"', "\uff2f\uff2b")} == {"ok"}
    differ = ["ok", "okay", "ok, thanks", "ok?", "...", "\U0001f44d", "v1.2", "v12", "= 1", "!= 1", ".env", "env"]
    assert len({*map(wording, differ)}) == len(differ)
    assert taken(*differ) == [True] * len(differ)


REPORT = (
    "昨天夜里测试服务器第三次重启失败了，值班的同事查看日志以后发现磁盘已经写满，清理旧的备份文件之后服务才恢复正常，"
    "大家决定下个月换一块更大的磁盘，并且每天早上检查剩余空间。"
)


def test_repetitions_are_known_in_a_text_without_spaces() -> None:
    assert len(REPORT) > SHORT
    assert taken(REPORT, REPORT, f"{REPORT[:-1]}！") == [True, False, False]
    assert taken(REPORT, REPORT.replace("第三次", "第五次").replace("下个月", "明年初")) == [True, True]
    assert taken("我明天早上会去修理厂", "我明天早上会去修理厂。", "我后天早上会去修理厂") == [True, False, True]


def test_the_same_words_of_somebody_else_are_no_repetition_unless_they_are_many() -> None:
    repetitions = Repetitions(0)
    ann, ben = Utterance(LISTING, "Ann"), Utterance(LISTING, "Ben")
    assert repetitions.take(ann) and repetitions.take(ben)
    strict = Repetitions(0.01)
    assert strict.take(ann) and strict.take(ben) and not strict.take(ben)


@MODERATE
@given(st.lists(st.lists(st.integers(0, 3), min_size=8, max_size=20), max_size=12), st.floats(0.01, 1))
def test_what_is_taken_is_what_comparing_each_with_each_gives(drawn: list[list[int]], diversity: float) -> None:
    said = [words(*numbers) for numbers in drawn]
    kept: list[set[tuple[str, ...]]] = []
    expected = []
    for text in said:
        tokens = ["", *re.findall(r"\w+", text)]
        shingles: set[tuple[str, ...]] = set(zip(tokens, tokens[1:], tokens[2:], strict=False))
        alike = any(
            len(shingles & other) and len(shingles & other) / len(shingles | other) >= 1 - diversity - 1e-12
            for other in kept
        )
        expected.append(not alike)
        if not alike:
            kept.append(shingles)
    assert taken(*said, diversity=diversity) == expected
