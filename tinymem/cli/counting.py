"""Numbers of things, as people read them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, thing: str) -> str:
    """A number of things with the right plural.

    >>> counted(1, "step"), counted(1200, "step"), counted(0, "memory")
    ('1 step', '1,200 steps', '0 memories')
    """
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {f'{thing[:-1]}ies' if thing.endswith('y') else f'{thing}s'}"
