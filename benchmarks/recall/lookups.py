"""Look-ups by a rare identifier: an agent run among whose hundreds of look-ups one is asked for, as a data file.

    python -m benchmarks.recall.lookups --out lookups.jsonl [--seed S] [--lookups N] [--runs N]
    python -m benchmarks.recall --data lookups.jsonl --budgets 256,512,1024

A clerk's agent looks up orders, tickets, hosts, files, commits and the like, one call and one result after the other,
and talks about looking things up in between without naming any. Each look-up is asked for, by its bare identifier or in
a sentence; gold is its result. One result in four does not repeat the identifier, which then stands in the call only.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.documents import command_line

__all__ = ["SHAPES", "haystack", "main"]

Shape = Callable[[random.Random], str]
HEX = "0123456789abcdef"


def _digits(random: random.Random, count: int) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def _hex(random: random.Random, count: int) -> str:
    return random.choice("abcdef") + _digits(random, 1) + "".join(random.choice(HEX) for _ in range(count - 2))


SHAPES: dict[str, Shape] = {
    "order": lambda r: f"ORD-{_digits(r, 5)}",
    "ticket": lambda r: f"GH-{r.randrange(1_000, 9_999)}",
    "host": lambda r: f"node-{r.randrange(10, 999)}",
    "path": lambda r: (
        f"src/{r.choice(['billing', 'auth', 'search'])}/{r.choice(['retry', 'queue', 'cache'])}_{r.randrange(99)}.py"
    ),
    "address": lambda r: f"10.{r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)}",
    "commit": lambda r: _hex(r, 10),
    "version": lambda r: f"{r.randrange(1, 9)}.{r.randrange(40)}.{r.randrange(90)}",
    "mail": lambda r: f"{r.choice(['ann', 'bo', 'cleo', 'dov'])}.{_hex(r, 4)}@example.com",
    "uuid": lambda r: "-".join(_hex(r, n) for n in (8, 4, 4, 4, 12)),
    "invoice": lambda r: f"INV/2025/{_digits(r, 5)}",
    "serial": lambda r: f"SN{_digits(r, 2)}{r.choice('QXZK')}-{_digits(r, 3)}{r.choice('QXZK')}",
    "customer": lambda r: f"cust_{r.choice('abcdefgh')}{_digits(r, 4)}",
}
STATES = ("open", "closed", "waiting for the customer", "on hold", "sent back", "being repaired", "paid in part")
PLACES = ("Bristol", "Lagos", "Osaka", "Quito", "Tartu", "Perth", "Lille", "Graz")
NOTES = (
    "the seal was broken on arrival", "a second courier has been booked", "the disk reports bad sectors",
    "the fan was replaced in March", "nobody answered the phone", "the test passes only when it runs alone",
    "the certificate expires next week", "the amount was entered twice", "the label cannot be read",
)  # fmt: skip
TALK = (
    "Could you look up the status of the order for me, and tell me what the record says?",
    "I will look that up now and read the record that comes back.",
    "Please check the identifier again: a look-up with the wrong number brings back the wrong record.",
    "The look-up of the ticket came back, and the record says that it is still open.",
    "Every record has a state, a place and a note. Look at the note first.",
    "Which host was it? Look up the host and tell me about its disks.",
)
ASKED = (
    "What did the look-up of {} say?", "What do we know about {}?", "Which state is {} in, and why?",
    "Remind me of the note on {}.", "Where is {} now?",
)  # fmt: skip


def _record(random: random.Random, name: str, shape: str, repeats: bool) -> str:
    fields: dict[str, Any] = {shape: name} if repeats else {}
    fields |= {"state": random.choice(STATES), "place": random.choice(PLACES), "note": random.choice(NOTES)}
    fields |= {
        "updated": f"2025-{random.randrange(1, 13):02}-{random.randrange(1, 29):02}",
        "items": random.randrange(40),
    }
    if random.random() < 0.5:
        return json.dumps(fields)
    return "\n".join(f"{key}: {value}" for key, value in fields.items())


def _names(random: random.Random, count: int) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    while len(seen) < count:
        shape = list(SHAPES)[len(seen) % len(SHAPES)]
        name = SHAPES[shape](random)
        if name not in seen:
            seen.add(name)
            yield shape, name


def haystack(seed: int, lookups: int) -> dict[str, Any]:
    """Make one run with so many look-ups, each of which is asked for."""
    made = random.Random(seed)
    units: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []

    def unit(speaker: str, text: str, **more: Any) -> str:
        units.append(
            {"id": f"u{len(units)}", "speaker": speaker, "text": text, "timestamp": None, "session": None} | more
        )
        return str(units[-1]["id"])

    for at, (shape, name) in enumerate(_names(made, lookups)):
        if made.random() < 0.4:
            unit("user", made.choice(TALK))
        call = {"id": f"c{at}", "name": f"look_up_{shape}", "arguments": json.dumps({shape: name})}
        unit("assistant", "", tool_calls=[call])
        gold = unit("tool", _record(made, name, shape, made.random() < 0.75), tool_call_id=f"c{at}")
        text = name if made.random() < 0.5 else made.choice(ASKED).format(name)
        queries.append({"id": f"q{at}", "text": text, "type": shape, "gold": [gold]})
    return {"id": f"lookups-{seed}", "units": units, "queries": queries}


def main(given: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = command_line("benchmarks.recall.lookups", __doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lookups", type=int, default=300, metavar="N", help="in each run")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    args = parser.parse_args(given)
    runs = (haystack(args.seed + at, args.lookups) for at in range(args.runs))
    args.out.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")


if __name__ == "__main__":
    main()
