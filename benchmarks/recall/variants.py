"""Recall without one of its stages, or with another value of a constant: what `benchmarks.recall.ablation` compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.fitting.evidence import UNFITTED
from tinymem.recall import passages
from tinymem.recall.features import NAMES
from tinymem.recall.fusion import Fusion
from tinymem.recall.selection.diversity import DIVERSITY

__all__ = ["FULL", "VARIANTS", "Variant", "by_making", "constants"]

FULL = "all stages"
PRICE = "tinymem.recall.relevance.PRICE"
PASSAGES = "tinymem.recall.passages"
LENGTHS = {"LEAST": 2 * passages.LEAST, "TARGET": 2 * passages.TARGET, "MOST": 2 * passages.MOST}
DOUBLED: dict[str, Any] = {f"{PASSAGES}.cut": partial(passages.cut, whole=2 * passages.WHOLE)}
DOUBLED |= {f"{PASSAGES}.{name}": length for name, length in LENGTHS.items()}


def uncut(text: str) -> list[tuple[int, int]]:
    """A text as a single passage."""
    return [(0, len(text))]


def unnamed(*_: object) -> list[tuple[float, float]]:
    """No spans of time."""
    return []


@dataclass(frozen=True)
class Variant:
    """Recall `without` some features, or with other constants: for ranking, to find candidates, to make passages."""

    without: tuple[str, ...] = ()
    ranking: Mapping[str, Any] = field(default_factory=dict)
    asking: Mapping[str, Any] = field(default_factory=dict)
    making: Mapping[str, Any] = field(default_factory=dict)
    fusion: Fusion | None = None  # fitted, where none is given
    diversity: float = DIVERSITY


def named(*parts: str) -> tuple[str, ...]:
    """The features whose names have one of `parts`."""
    return tuple(name for name in NAMES if any(part in name for part in parts))


VARIANTS = {
    FULL: Variant(),
    "no BM25": Variant(named("bm25")),
    "no cosine": Variant(named("cosine")),
    "no rest of the step": Variant(named("step_")),
    "no neighbours": Variant(named("before_", "after_", "around_")),
    "neighbours bring no candidates": Variant(asking={"tinymem.recall.candidates.AROUND": 0}),
    "no session, no day": Variant(named("session", "day")),
    "no dates": Variant(named("dated"), asking={"tinymem.recall.query.analysis.spans": unnamed}),
    "no identifiers": Variant(named("introduces", "typed")),
    "no speaker, answers, reply": Variant(named("speaker", "answers", "reply")),
    "whole texts, no passages": Variant(making={f"{PASSAGES}.cut": uncut}),
    "passages of twice the length": Variant(making=DOUBLED),
    "no rest of the step, no neighbours": Variant(named("step_", "before_", "after_", "around_")),
    "near-duplicates stay (diversity 0)": Variant(diversity=0),
    "no price of length": Variant(ranking={PRICE: 0.0}),
    "cosine + BM25, nothing fitted": Variant(ranking={PRICE: 0.0}, fusion=UNFITTED),
    "diversity 0.2": Variant(diversity=0.2),
    "diversity 0.4": Variant(diversity=0.4),
    "diversity 0.6": Variant(diversity=0.6),
}


@contextmanager
def constants(values: Mapping[str, Any]) -> Iterator[None]:
    """The library with other values of some constants."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(patch(name, value))
        yield


def by_making(variants: Mapping[str, Variant]) -> Iterator[tuple[Mapping[str, Any], dict[str, Variant]]]:
    """The variants whose memories hold the same, together: those with the same constants in `making`."""
    for making in {tuple(variant.making): variant.making for variant in variants.values()}.values():
        yield making, {name: variant for name, variant in variants.items() if variant.making.keys() == making.keys()}
