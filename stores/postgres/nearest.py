"""The search for the nearest vectors of a namespace: exact where few are compared, else by an HNSW index of its own.

One index over all namespaces would find nothing of a small one, so that each large one has an index over its rows
alone. Only the owner of the tables can make it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.stores.postgres.values import HIGHEST, Half

__all__ = ["BREADTH", "FEW", "INDEXED_FROM", "STEPS", "conditions", "index_name", "index_sql", "nearest"]

Statement: TypeAlias = "tuple[str, Mapping[str, Any]]"

INDEXED_FROM = 50_000  # passages of a namespace from which on it has an index
FEW = 20_000  # passages that a filter lets through, up to which they are compared one by one, index or not
LINKS, CANDIDATES = 24, 100  # of a node of the index, and when it is built
BREADTH: Statement = (  # of the search in the index; where a filter leaves out what is found, it goes on
    "SELECT set_config('hnsw.ef_search', '300', true), set_config('hnsw.iterative_scan', 'relaxed_order', true), "
    "set_config('enable_sort', %(sorts)s, true)",  # or the planner sorts all rows where its statistics are old
    {"sorts": "off"},
)
_INDEX = (
    "CREATE INDEX CONCURRENTLY {name} ON passages USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) "
    "WITH (m = {links}, ef_construction = {candidates}) WHERE namespace = {namespace}"
)
_LIMITS = {
    "session": "s.session = %(session)s",
    "speaker": "s.speaker = %(speaker)s",
    "type": "s.type = %(type)s",
    "since": "s.time >= %(since)s",
    "until": "s.time <= %(until)s",
    "numbers": "s.number = ANY(%(numbers)s::bigint[])",
    "tool": "%(tool)s = ANY(string_to_array(p.tools, E'\\n'))",
}
STEPS = "JOIN steps s ON s.namespace = p.namespace AND s.number = p.step"
# Hidden steps are left out later: they count when it is asked how close the closest is.
_AND_HIDDEN = "%(most)s + (SELECT count(*) FROM passages WHERE namespace = %(ns)s AND step = ANY(%(hidden)s::bigint[]))"


def conditions(limits: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the conditions for steps `s` and passages `p` within limits, and their values."""
    where, values = [], dict(limits)
    for name, value in limits.items():
        if name == "session" and value.endswith("*"):
            where.append("s.session >= %(session)s AND s.session < %(session_end)s")
            values |= {"session": value[:-1], "session_end": value[:-1] + HIGHEST}
        else:
            where.append(_LIMITS[name])
    return " AND ".join(where), values


def nearest(
    namespace: int,
    vectors: Sequence[Half],
    dimensions: int,
    limits: tuple[str, Mapping[str, Any]],
    hidden: Sequence[int],
    most: int,
    by_index: bool,
) -> Statement:
    """Return the statement that finds the passages nearest to any of the vectors, within limits, and `hidden` ones."""
    where, given = limits
    values: dict[str, Any] = {"ns": namespace, "hidden": list(hidden), "most": most, **given}
    most_of = _AND_HIDDEN if hidden else "%(most)s"
    values |= {f"v{at}": vector for at, vector in enumerate(vectors)}
    held = f"p.vector::halfvec({dimensions})"
    asked = [f"%(v{at})b::halfvec({dimensions})" for at in range(len(vectors))]
    if by_index:
        kept = (
            f"AND (SELECT {where} FROM steps s WHERE s.namespace = p.namespace AND s.number = p.step)" if where else ""
        )
        each = (
            f"(SELECT p.id FROM passages p WHERE p.namespace = %(ns)s {kept} "
            f"ORDER BY {held} <#> {vector} LIMIT {most_of})"
            for vector in asked
        )
        return " UNION ALL ".join(each), values
    joined, kept = (STEPS, f"AND {where}") if where else ("", "")
    closest = f"least({', '.join(f'{held} <#> {vector}' for vector in asked)})"
    found = f"SELECT p.id FROM passages p {joined} WHERE p.namespace = %(ns)s {kept}"
    return f"{found} ORDER BY {closest}, p.id LIMIT {most_of}", values


def index_name(namespace: int) -> str:
    """Return the name of a namespace's index."""
    return f"passages_nearest_{namespace & (1 << 64) - 1:016x}"


def index_sql(namespace: int, dimensions: int) -> str:
    """Return the statement that makes a namespace's index while others read and write."""
    return _INDEX.format(
        name=index_name(namespace), dimensions=dimensions, links=LINKS, candidates=CANDIDATES, namespace=namespace
    )
