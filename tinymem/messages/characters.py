"""Visible text: a person who looks at a block in the prompt sees exactly the characters that the model reads.

Nothing in a shown text controls a terminal, reorders the text beside it, hides, or is a token by which the chat
template of a model begins another speaker's turn. Stored text never changes; each character that is replaced makes way
for one other, so offsets hold:

| what | shown as |
| --- | --- |
| control characters, lone surrogates | U+FFFD |
| carriage return without a line feed, U+2028, U+2029 | a line feed |
| bidirectional embeddings, overrides and isolates (U+202A-202E, U+2066-2069) | U+FFFD |
| tag characters (U+E0000-E007F) | U+FFFD, but for the flags of England, Scotland and Wales |
| joiners (U+200C, U+200D) | kept behind a letter of a script that writes with them; U+200D between emoji too |
| zero-width space | kept behind a letter of a script that writes no spaces |
| variation selectors | kept behind what has variants: the first one |
| direction marks (U+200E, U+200F, U+061C) | kept, one by one, in a line with letters that run from right to left |
| soft hyphen | kept between letters |
| every other character that is ignored where it is drawn | U+FFFD |
| `<|name|>`, `<start_of_turn>` and the like | `<¦name¦>`, `‹start_of_turn›` |

The ignored ones are Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, blank letters included.
"""

from __future__ import annotations

import re

from tinymem.steps.content import clean

__all__ = ["visible"]

REPLACED = "\ufffd"

_IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Letters and marks of scripts that write with joiners: Arabic, Syriac, N'Ko, Indic, Tibetan, Khmer, Mongolian.
_JOINING = "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0700-\u085f\u08a0-\u08ff\u0900-\u0dff\u0f00-\u0fff" \
    "\u1780-\u17b3\u17b6-\u17d3\u1820-\u18aa\ufb50-\ufdff\ufe70-\ufefc"  # fmt: skip
_UNSPACED = "\u0e01-\u0e4e\u0e80-\u0edf\u0f00-\u0fff\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3\u3040-\u30ff\u4e00-\u9fff"
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f" \
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"  # fmt: skip
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_TAGS = {ord(letter): 0xE0000 + ord(letter) for letter in "begnlsctw"}
_FLAGS = "|".join(f"\U0001f3f4{region.translate(_TAGS)}\U000e007f" for region in ("gbeng", "gbsct", "gbwls"))
_KEPT = "|".join((
    _FLAGS,
    f"(?<=[{_JOINING}])[\u200c\u200d\u180b-\u180e]",
    f"(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])",
    f"(?<=[{_UNSPACED}])\u200b",
    f"(?<=[{_EMOJI}0-9#*])[\ufe0e\ufe0f]",
    f"(?<=[\u2200-\u22ff{_IDEOGRAPHS}])[\ufe00-\ufe02]",
    f"(?<=[{_IDEOGRAPHS}])[\U000e0100-\U000e01ef]",
    r"(?<=[^\W\d_])" "\u00ad" r"(?=[^\W\d_])",
))  # fmt: skip
_MARKS = f"(?<![{_IGNORED}])[\u200e\u200f\u061c](?![{_IGNORED}])"
_HIDING = re.compile(f"[{_IGNORED}]")  # one of them is in all that the two below match
_IN_ANY = re.compile(f"({_KEPT})|[{_IGNORED}]")
_IN_RIGHT_TO_LEFT = re.compile(f"({_KEPT}|{_MARKS})|[{_IGNORED}]")
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u05ff\u0620-\u065f\u066e-\u06d3\u0700-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff"
    "\U0001e800-\U0001efff]"
)
_LINE_ENDS = re.compile("\r(?!\n)|[\u2028\u2029]")
# Tokens that begin and end turns: ChatML, Llama 3, Phi, Qwen, Harmony; DeepSeek's with wide bars; Gemma's.
_TURNS = re.compile(r"<([|｜])([^<>|｜\s]{1,40})[|｜]>|<((?:start|end)_of_turn)>")


def visible(text: str) -> str:
    r"""Replace the characters of `text` that hide or mislead; same length. Doing so twice changes nothing more.

    >>> visible("price: \u202e42\u202c <|im_start|>system")
    'price: �42� <¦im_start¦>system'
    """
    text = _LINE_ENDS.sub("\n", clean(text))
    if not text.isascii() and _HIDING.search(text):
        text = "\n".join(map(_unhidden, text.split("\n")))
    return _TURNS.sub(_as_text, text)


def _unhidden(line: str) -> str:
    pattern = _IN_RIGHT_TO_LEFT if _RIGHT_TO_LEFT.search(line) else _IN_ANY
    return pattern.sub(lambda found: found[1] or REPLACED, line)


def _as_text(turn: re.Match[str]) -> str:
    return f"‹{turn[3]}›" if turn[3] else f"<¦{turn[2]}¦>"
