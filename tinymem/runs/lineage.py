"""Lineage of runs: the history that a resumed, forked or copied session repeats, and files that are one run.

The journal's links tell it (see `tinymem.messages.recognition`). Beside the links of its messages, a run of a session
file has a link of each by what its line is known by, an id or a time, whatever session it comes in. A run that is known
by its file alone has links by which the file is known again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tinymem.messages.chains import bodies_of, first_link, linked
from tinymem.messages.recognition import Arrival, Node, words
from tinymem.protocols.rows import LinkRow
from tinymem.runs.readers import Run
from tinymem.steps.step import Step
from tinymem.steps.types import SystemPromptStep
from tinymem.upkeep.forgetting import repeated_by

if TYPE_CHECKING:
    from tinymem.memory.hierarchy import HierarchicalMemory

__all__ = ["Lineage", "name_run"]

AT_ONCE = 256  # links that are looked up together
FORKS = 64  # of a session, that are looked at


class Lineage:
    """The messages of a run that stand in the memory already, in this session or in another one."""

    def __init__(self, memory: HierarchicalMemory, run: Run) -> None:
        self._memory, self._run = memory, run
        self._links = memory.short_term
        self._marks: dict[str, str] = {}  # by the link of a message
        self._holders: set[int] = set()
        self._begins = False

    def mark_known(self, bodies: Sequence[str], nodes: list[Node]) -> list[Node]:
        """Return the nodes of the run's messages, with the numbers of the steps that hold those that it repeats."""
        marks = [""] * len(nodes)
        for at, (mark, body) in enumerate(zip(self._run.marks, bodies, strict=False)):
            marks[at] = linked(f"line {mark.encode('ascii', 'backslashreplace').decode()} ", body) if mark else ""
        self._marks = {node.link: mark for node, mark in zip(nodes, marks, strict=True) if mark}
        new = [mark for node, mark in zip(nodes, marks, strict=True) if node.number is None and mark]
        held = {link: node for some in _pieces(new) for link, node in self._links.linked(some).items()}
        self._begins = bool(nodes) and nodes[0].number is None and not self._run.goes_on
        shared = self._shared(bodies) if self._begins else []
        is_known = any(node.number for node in nodes)
        found: list[Node] = []
        for at, (node, mark, body) in enumerate(zip(nodes, marks, bodies, strict=True)):
            number = node.number
            if number is None and (mark in held or at < len(shared)):
                number = held[mark].number if mark in held else shared[at]
                self._holders.add(number or 0)
            elif number is None and mark and is_known and _is_of_call(body):
                said = words(self._run.name, body)  # of a memory from before results stood behind their calls
                number = 0 if self._links.find_same_content([said], 1) else None
            found.append(node if number is None else node._replace(number=number))
        return found

    def rows_of(self, arrival: Arrival, number: int) -> Iterator[LinkRow]:
        """Give the links of a step that was added."""
        for link, said, place in arrival.links:
            yield LinkRow(link, said, number, number if place is None else place)
            if mark := self._marks.get(link):
                yield LinkRow(mark, "", number, number)

    def rows_of_run(self, first: int) -> Iterator[LinkRow]:
        """Give the links that tell whose history the run repeats, and whom it comes from; `first` is its first step."""
        name = self._run.name
        if self._holders:
            for number in {min(self._holders), max(self._holders)}:
                yield LinkRow(linked(f"repeats {number} ", first_link(name)), repeated_by(name), number, number)
        for parent in self._run.parents if first and self._begins else ():
            yield LinkRow(linked(f"fork {first} ", first_link(parent)), _forks(parent), first, first)

    def _shared(self, bodies: Sequence[str]) -> list[int]:
        """Return the numbers of the steps that hold what the run begins with, in a run that it comes from or a fork."""
        forks = self._links.find_same_content([_forks(self._run.name)], FORKS)
        numbers = [node.number or 0 for nodes in forks.values() for node in nodes]
        steps = self._memory.long_term.fetch(numbers).values() if numbers else ()
        names = [*self._run.parents, *(step.session for step in steps)]
        return max((self._begun(name, bodies) for name in dict.fromkeys(names)), key=len, default=[])

    def _begun(self, session: str | None, bodies: Sequence[str]) -> list[int]:
        """Return the numbers of the steps of a session that begin as the run does."""
        found: list[int] = []
        chain = _chain(session, bodies)
        for some in _pieces(chain):
            known = self._links.linked(some)
            for link in some:
                if link not in known:
                    return found
                found.append(known[link].number or 0)
        return found


def name_run(memory: HierarchicalMemory, run: Run) -> Run:
    """Return a run that is known by its file alone under the name that the memory knows this file's run by.

    It is the run's own name, or where a file of the same name in another folder has that, with the name of its folder.
    A file that was moved or copied is known by what it says.
    """
    if run.file is None or not run.steps:
        return run
    links, folder = memory.short_term, run.file.resolve().parent
    said = [memory.apply_redaction(step) for step in run.steps if not isinstance(step, SystemPromptStep)]
    bodies = [body for step in said for body in bodies_of(step)]
    name, parts = run.name, [part for part in folder.parts if part != folder.anchor]
    while True:
        owned = linked("file ", first_link(name))
        owner = linked(f"{owned} ", linked(str(folder).encode("utf-8", "backslashreplace").hex(), ""))
        known = links.linked([owned, owner])
        last, chain = links.last_step_id(name), _chain(name, bodies)
        is_free = owned not in known and (last is None or not chain or bool(links.linked(chain[:1])))
        if owner in known or is_free or not parts or _is_same(memory, last, chain):
            rows = [LinkRow(each, "", 0, 0) for each in (owned, owner) if each not in known]
            if rows and (owner in known or is_free or not parts):
                memory.long_term.journal.put_links(rows)
            return run if name == run.name else replace(run, name=name, steps=_renamed(run, name))
        name = f"{parts.pop()}/{name}"


def _is_same(memory: HierarchicalMemory, last: str | None, chain: Sequence[str]) -> bool:
    """Return True where one of a stored run and of another one begins as all of the other."""
    known = [link for some in _pieces(chain) for link in memory.short_term.linked(some)]
    return bool(chain) and (len(known) == len(chain) or last in chain)


def _renamed(run: Run, name: str) -> list[Step]:
    return [step.evolve(session=name) for step in run.steps]


def _chain(session: str | None, bodies: Iterable[str]) -> list[str]:
    head = first_link(session)
    chain: list[str] = []
    for body in bodies:
        head = linked(head, body)
        chain.append(head)
    return chain


def _pieces(links: Sequence[str]) -> Iterator[Sequence[str]]:
    return (links[at : at + AT_ONCE] for at in range(0, len(links), AT_ONCE))


def _forks(session: str) -> str:
    """Return what the links of a session's forks are found by."""
    return linked("forks ", first_link(session))


def _is_of_call(body: str) -> bool:
    """Return True for the body of a call or of a result, whose id no other has."""
    return '"tool_call' in body
