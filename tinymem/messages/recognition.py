"""Recognition of a history that comes again: which of its messages a memory holds, and where they stand.

A history is followed along its chain (see `tinymem.messages.chains`) as far as the memory knows it. Where it leaves the
chain, it is new; or it was cut, summarised or edited there, and comes back to what is known: a message that the session
said, at that place or later, counts as the same one, and the chain goes on from it. So an edit is new, and what follows
it unchanged is not. Two messages that say the same in one session differ by their place alone; where a cut has taken
that away, they count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from tinymem.messages.chains import Kept, bodies_of, first_link, link, linked, results_of
from tinymem.messages.conversion import in_order, message_places, steps_from_messages
from tinymem.steps.step import Step
from tinymem.steps.types import SystemPromptStep

__all__ = [
    "Arrival",
    "Linked",
    "Links",
    "LinksOf",
    "Node",
    "arrivals",
    "by_place",
    "new_of",
    "new_steps",
    "recognised",
    "words",
]

AT_ONCE = 64  # messages whose links are looked up together
CANDIDATES = 16  # places in a session where the same was said, the newest, that a history may come back to
AHEAD = 8  # messages by which such a place is compared with the history


class Node(NamedTuple):
    """A message in the chain of its session.

    Attributes:
        link: Its link.
        number: The number of the step that holds it; 0 where that is not known, None where the message is new.
        place: The number of the step that it stands with in the order of the session: that one, or for a message that
            was put in between, the step before it.
    """

    link: str
    number: int | None = None
    place: int | None = None
    ends: bool = True


class Links(Protocol):
    """The links that a memory keeps."""

    def linked(self, links: Sequence[str]) -> dict[str, Node]:
        """Return the messages with these links; links that are not kept are left out."""

    def find_same_content(self, hashes: Sequence[str], limit: int) -> dict[str, list[Node]]:
        """Return up to `limit` messages, the newest, that say the same, by the hash of that."""


def words(session: str | None, body: str) -> str:
    """Return a hash of what a message says in a session, wherever it stands."""
    return linked(f"alike {first_link(session)}", body)


def recognised(bodies: Sequence[str], session: str | None, links: Links, before: Sequence[Node] = ()) -> list[Node]:
    """Find the messages with these bodies in the chain of a session, behind the messages `before`.

    Returns:
        A node for each message.
    """
    follower = _Follower(bodies, session, links, before)
    while len(follower.nodes) < len(bodies):
        if not follower.follow():
            follower.leave()
    return follower.nodes


class _Follower:
    """A history, and how far it was followed."""

    def __init__(self, bodies: Sequence[str], session: str | None, links: Links, before: Sequence[Node]) -> None:
        self.nodes: list[Node] = []
        self._bodies, self._session, self._links = bodies, session, links
        self._head = before[-1].link if before else first_link(session)
        self._used = {node.link for node in before}
        self._place = next((node.place for node in reversed(before) if node.place is not None), 0)
        self._said: list[str] = []
        self._alike: dict[str, list[Node]] | None = None

    def follow(self) -> bool:
        """Go along the chain, and return False where it ends before the history does."""
        chain = _chain(self._head, self._bodies[len(self.nodes) :][:AT_ONCE])
        known = self._links.linked(chain)
        last = max((at for at, each in enumerate(chain) if each in known), default=-1)
        for each in chain[: last + 1]:  # the last of them is known, and so are those before it
            self._go(known.get(each, Node(each, 0)))
        return last + 1 == len(chain)

    def leave(self) -> None:
        """Take messages as new up to the one where the history comes back to what is known."""
        begin = len(self.nodes)
        if self._alike is None:
            self._said = [words(self._session, body) for body in self._bodies]
            self._alike = self._links.find_same_content(list(dict.fromkeys(self._said[begin:])), CANDIDATES)
        for at in range(begin, len(self._bodies)):
            if back := self._best(at, self._alike.get(self._said[at], ())):
                self.nodes[begin:] = [node._replace(place=self._place) for node in self.nodes[begin:]]
                self._go(back)
                return
            self._go(Node(linked(self._head, self._bodies[at])))

    def _go(self, node: Node) -> None:
        self.nodes.append(node)
        self._used.add(node.link)
        self._head = node.link
        if node.place is not None:
            self._place = node.place

    def _best(self, at: int, places: Sequence[Node]) -> Node | None:
        """Return the message, not met yet, behind which most of what follows is known; the newest of several."""
        later = [node for node in places if (node.place or 0) >= self._place and node.link not in self._used]
        return max(later, key=lambda node: (self._ahead(node, at) if len(later) > 1 else 0, node.number), default=None)

    def _ahead(self, node: Node, at: int) -> int:
        return len(self._links.linked(_chain(node.link, self._bodies[at + 1 :][:AHEAD])))


def _chain(head: str, bodies: Sequence[str]) -> list[str]:
    return [head := linked(head, body) for body in bodies]


class Linked(NamedTuple):
    """A message as its link is kept: the hash of what it says, and its place where that is not its own step's."""

    link: str
    said: str
    place: int | None = None


class Arrival(NamedTuple):
    """A step that is to be added, with its messages."""

    step: Step
    links: Sequence[Linked]


def arrivals(
    steps: Sequence[Step], skip: bool, kept: Kept, links: Links, newest: Callable[[str | None], str | None]
) -> list[Arrival]:
    """Return the steps of a session's messages that are to be added, with links as ids.

    With `skip` they are the whole history, and what is known of it is left out. Without, they come behind the newest
    step of the session; a step whose link is taken, as by the same system prompt, keeps the id that it has.
    """
    if skip:
        return new_of(steps, kept, links)[0]
    session, read = _read(steps, kept)
    chain = _chain(newest(session) or first_link(session), _bodies(read))
    given = _given(read, map(Node, chain))
    taken = links.linked([node.link for some in given for node in some])
    found: list[tuple[int, Arrival]] = []
    for one, some, places in zip(read, given, _places(read), strict=True):
        if some[-1].link in taken:
            found.append((min(places, default=-1), Arrival(one.step, ())))
        else:
            found += new_steps(one.step, some, one.said(session), places)
    return by_place(found)


def new_of(
    steps: Sequence[Step],
    kept: Kept,
    links: Links,
    before: Sequence[Node] = (),
    mark_known: Callable[[Sequence[str], list[Node]], list[Node]] = lambda bodies, nodes: nodes,
) -> tuple[list[Arrival], str | None]:
    """Find what is new of a session's history, whose messages come behind the messages `before`.

    `mark_known` is given the bodies of its messages and their nodes, and returns these with the numbers of the steps
    that hold messages which are known otherwise.

    Returns:
        The steps that are to be added, with links as ids, and the link of the last message.
    """
    session, read = _read(steps, kept)
    bodies = _bodies(read)
    nodes = mark_known(bodies, recognised(bodies, session, links, before))
    prompts = links.linked([one.prompt for one in read if one.prompt is not None])
    found: list[tuple[int, Arrival]] = []
    for one, some, places in zip(read, _given(read, nodes), _places(read), strict=True):
        if one.prompt not in prompts:
            found += new_steps(one.step, some, one.said(session), places)
    return by_place(found), nodes[-1].link if nodes else None


class _Read(NamedTuple):
    """A step with the bodies of its messages; a system prompt has its link instead."""

    step: Step
    bodies: Sequence[str]
    prompt: str | None

    def said(self, session: str | None) -> list[str]:
        return [words(session, body) for body in self.bodies] or [""]


def _read(steps: Sequence[Step], kept: Kept) -> tuple[str | None, list[_Read]]:
    """Return the session of steps, and what they say as they are kept."""
    found, session = [], None
    for step in steps:
        own = kept(step)
        session = own.session
        is_prompt = isinstance(own, SystemPromptStep)
        prompt = link(first_link(session), own.to_messages()[0], own.type) if is_prompt else None
        found.append(_Read(step, [] if is_prompt else bodies_of(own), prompt))
    return session, found


def _bodies(read: Sequence[_Read]) -> list[str]:
    return in_order([one.bodies for one in read], _places(read))


def _places(read: Sequence[_Read]) -> list[list[int]]:
    return message_places([one.step for one in read], [one.bodies for one in read])


def _given(read: Sequence[_Read], nodes: Iterable[Node]) -> list[list[Node]]:
    """Return the nodes of each step."""
    own = [*nodes]
    each = zip(read, _places(read), strict=True)
    return [[Node(one.prompt)] if one.prompt is not None else [own[at] for at in places] for one, places in each]


def by_place(arrivals: Iterable[tuple[int, Arrival]]) -> list[Arrival]:
    """Put arrivals in the order of the places that they have among the messages."""
    return [arrival for _, arrival in sorted(arrivals, key=itemgetter(0))]


def new_steps(
    step: Step, nodes: Sequence[Node], said: Sequence[str], places: Sequence[int]
) -> list[tuple[int, Arrival]]:
    """Return what is new of a step, each with its place, whose messages have these nodes, hashes and `places`.

    Of a call that is known, the results that are new become messages of their own; a call that is new comes without the
    results that are known.
    """
    new = [at for at, node in enumerate(nodes) if node.number is None]
    links = [node.link for node in nodes]
    kept = [Linked(links[at], said[at], nodes[at].place) for at in new]
    if not new:
        return []
    first = min(places, default=-1)
    if len(new) == len(nodes):
        return [(first, Arrival(step.evolve(id=links[-1]), kept))]
    if new[0]:
        results = zip(new, kept, results_of(step, new, links), strict=True)
        return [(places[at], Arrival(one, [row])) for at, row, one in results]
    messages = step.to_messages()
    made = steps_from_messages([messages[at] for at in new], session=step.session, timestamp=step.timestamp)
    (call,) = made
    return [(first, Arrival(call.evolve(id=links[new[-1]], metadata=step.metadata), kept))]


class LinksOf:
    """The links of messages that one process was given, in memory."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._said: dict[str, list[Node]] = {}

    def put(self, links: Iterable[Linked], number: int) -> None:
        """Keep the messages of a step."""
        for each, said, place in links:
            self._nodes[each] = node = Node(each, number, number if place is None else place)
            self._said.setdefault(said, []).append(node)

    def linked(self, links: Sequence[str]) -> dict[str, Node]:
        """Return the messages with these links."""
        return {each: self._nodes[each] for each in links if each in self._nodes}

    def find_same_content(self, hashes: Sequence[str], limit: int) -> dict[str, list[Node]]:
        """Return up to `limit` messages, the newest, that say the same."""
        return {each: self._said[each][-limit:] for each in hashes if each in self._said}
