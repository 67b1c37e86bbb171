"""Rules: what a person says that holds beyond the moment, as "never", "from now on" or "we decided".

A rule is found by its words, in a few languages: what is always to be done or left, what was decided or agreed, what
somebody likes, what is banned, a limit, a correction.
"""

from __future__ import annotations

import re

__all__ = ["is_rule"]

LONGEST = 300  # characters of a rule; a longer text says more than one thing

# What begins a clause, or who is spoken of: "it never loads" and "which always fails" are no rules.
_CLAUSE = r"(?:^|[.;:,!(\n–—-]\s*|\b(?:please|you|we|i|must|should|shall|to)\s+)"
_RULES = (
    rf"{_CLAUSE}(?:never|always)\b",
    r"(?:^|[.;:,!\n]\s*|\bplease\s+)(?:do not|don['’]t)\b",
    r"\b(?:from now on|as of now|going forward|henceforth|by default)\b",
    r"\bwe(?:['’]ve| have| had| all)? (?:decided|agreed|chose|settled|switched|changed|tried|dropped|gave up)\b",
    r"\bwe (?:(?:never|always|only|no longer) )?(?:use|keep|want|prefer|avoid|do not|don['’]t)\b",
    r"\bwe(?:['’]re| are) (?:stuck with|limited to|bound to)\b",
    r"\bi (?:like|prefer|hate|dislike|insist|(?:always|never|only) \w+)\b|\bmy \w+ i want\b",
    r"^(?:decision|rule|policy|convention|correction|agreement|note|remember)\b.{0,20}:",
    r"\b(?:is|are) (?:banned|forbidden|prohibited|mandatory|not allowed|off limits)\b",
    r"\b(?:must|may|shall) (?:not|only)\b|\bat (?:most|the latest)\b|\bno (?:more|later) than\b",
    r", not (?:later|earlier|more|less)\b",
    # German
    r"^(?:nie|immer|stets)\b|\b(?:ab (?:jetzt|sofort)|von nun an|künftig|niemals|nie wieder|bitte (?:immer|nie))\b",
    r"\b(?:wir haben (?:beschlossen|entschieden|vereinbart)|ich (?:mag|bevorzuge)|ist verboten|höchstens|spätestens)\b",
    # French
    r"^(?:jamais|toujours)\b|\bne \w+ jamais\b|\b(?:désormais|dorénavant|à partir de maintenant)\b",
    r"\b(?:nous avons (?:décidé|convenu)|je préfère|au plus tard)\b",
    # Spanish, Portuguese, Italian
    r"^(?:nunca|siempre|sempre)\b|\b(?:(?:de|a partir de) ahora|de agora em diante|d['’]ora in poi)\b",
    r"\b(?:hemos (?:decidido|acordado)|decidimos|abbiamo deciso|prefiero|prefiro|preferisco|como máximo)\b",
    # Russian, Chinese, Japanese, Korean
    r"\b(?:отныне|впредь|мы решили|никогда не|всегда)\b",
    r"从现在起|从今以后|以后都|绝不|永远不要|我们决定|今後は|これからは|必ず|決して|앞으로는|항상|절대",
)
_RULE = re.compile("|".join(_RULES), re.IGNORECASE)


def is_rule(text: str) -> bool:
    """Return True for a short text that says what holds beyond the moment; a question is none.

    >>> is_rule("Never run it on a Monday."), is_rule("Do you never run it?"), is_rule("The page never loads.")
    (True, False, False)
    """
    said = text.strip()
    return len(said) <= LONGEST and not re.search("[?？]", said) and _RULE.search(said) is not None
