"""The strict judges of the formats: each gives the rules that what is sent breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic_rules
import openai_rules
import responses_rules

__all__ = ["JUDGES"]

JUDGES: dict[str, Callable[[Any], list[str]]] = {
    "openai": openai_rules.broken_rules,
    "responses": responses_rules.broken_rules,
    "anthropic": lambda request: anthropic_rules.broken_rules(request, alternate=True),
}
