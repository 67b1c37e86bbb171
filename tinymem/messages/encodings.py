"""Encodings of tiktoken, by their own names or by those of models; the two usual ones need no network."""

from __future__ import annotations

import functools
import lzma
from importlib import resources
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from tinymem.errors import InputError, shown

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["BUNDLED", "encoding_name", "encoding_of"]

BUNDLED = ("cl100k_base", "o200k_base")
# Encodings that differ from one that is bundled in their special tokens only, which count as plain text here.
_SAME = {"o200k_harmony": "o200k_base"}
_SIZE = 199_998  # tokens of o200k_base, less the special ones
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def encoding_name(name: str) -> str:
    """Return the name of an encoding, given that or the name of a model that uses it.

    >>> encoding_name("gpt-4o"), encoding_name("cl100k_base")
    ('o200k_base', 'cl100k_base')

    Raises:
        InputError: tiktoken does not know the name.
    """
    import tiktoken
    from tiktoken.model import encoding_name_for_model

    known = sorted(one for one in tiktoken.list_encoding_names() if not one.endswith("_offline"))
    if name not in known:
        try:
            name = encoding_name_for_model(name)
        except KeyError:
            raise InputError(
                f"counter must be an encoding of tiktoken ({', '.join(known)}), a model's name that tiktoken knows "
                f"(as gpt-4o), or a TokenCounter, not {shown(name)}"
            ) from None
    return _SAME.get(name, name)


@functools.cache
def encoding_of(name: str) -> Encoding:
    """Load an encoding by the name that `encoding_name` gives. All but those in BUNDLED are downloaded once.

    Raises:
        InputError: The download fails.
    """
    import tiktoken

    if name == "o200k_base":
        return tiktoken.Encoding(name, pat_str=_O200K_PATTERN, mergeable_ranks=_o200k_ranks(), special_tokens={})
    try:
        return tiktoken.get_encoding(f"{name}_offline" if name in BUNDLED else name)
    except Exception as error:
        raise InputError(
            f"the encoding {name} could not be loaded ({type(error).__name__}): it is downloaded once by tiktoken; "
            f"without a network, take {' or '.join(BUNDLED)}, or give a TokenCounter"
        ) from error


def _o200k_ranks() -> dict[bytes, int]:
    """Read the rank of each token; `data/o200k_base.txt` describes the file."""
    data = lzma.decompress((resources.files("tinymem") / "data" / "o200k_base.xz").read_bytes())
    bounds = pairwise(accumulate(data[:_SIZE], initial=_SIZE))
    return {data[start:end]: rank for rank, (start, end) in enumerate(bounds)}
