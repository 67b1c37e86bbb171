"""Extensions of griffe: what it cannot read in the sources by itself."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).+\n?)*)", re.MULTILINE)  # to the next empty line


AWAITED = re.compile(r"(?:awaited|iterated|opening)\((\w+)\.(\w+)")


class Examples(griffe.Extension):
    """Puts a fence around each example, which stands in a docstring as doctest has it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(fenced, obj.docstring.value)


class Awaited(griffe.Extension):
    """Gives awaited calls, as `add = awaited(HierarchicalMemory.add)`, the signature and text of the others."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace the attributes of each class whose name begins with Async by functions."""
        if "memory" not in pkg.members:
            return
        for module in ("hierarchy", "memories"):
            sync, facade = pkg[f"memory.{module}"], pkg[f"memory.aio.{module}"]
            for held in [one for one in facade.classes.values() if one.name.startswith("Async")]:
                for name, member in list(held.attributes.items()):
                    found = AWAITED.match(str(member.value))
                    if found and (origin := sync[found[1]].all_members.get(found[2])):
                        held.set_member(name, awaited(name, origin))


def awaited(name: str, origin: griffe.Function) -> griffe.Function:
    """Return a function that is awaited, like another one."""
    given = {"parameters": origin.parameters, "returns": origin.returns, "docstring": origin.docstring}
    made = griffe.Function(name, lineno=origin.lineno, endlineno=origin.endlineno, **given)
    made.labels.add("async")
    return made


def fenced(example: re.Match[str]) -> str:
    """Return an example as a block."""
    return f"```pycon\n{example[0].rstrip()}\n```\n"
