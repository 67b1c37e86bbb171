"""The search for the nearest vectors of a namespace: exact where few are compared, else by an HNSW index of its own.

One index over all namespaces would find nothing of a small one, so that each large one has an index over its rows
alone. Only the owner of the tables can make it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tinymem.stores.filter import Condition
from tinymem.stores.postgres.server.values import Half, hash_of

__all__ = ["BREADTH", "INDEXED_FROM", "STEPS", "index_name", "index_sql", "nearest", "within", "within_spans"]

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
    "CREATE INDEX CONCURRENTLY {name} ON vectors USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) "
    "WITH (m = {links}, ef_construction = {candidates}) WHERE namespace = {namespace} AND embedder = {embedder}"
)
# How many passages are within a filter, kept for the statements behind it in the same transaction.
_WITHIN = """
SELECT passages, set_config('tinymem.within', passages::text, true)
FROM (SELECT count(*) AS passages FROM passages p {joined} WHERE p.namespace = %(ns)s{where}) held
"""
_FEW_WITHIN = "current_setting('tinymem.within')::bigint <= {few}"
_OF_EMBEDDER = "v.namespace = %(ns)s AND v.embedder = %(embedder)s"
STEPS = "JOIN steps s ON s.namespace = p.namespace AND s.number = p.step"
# Hidden steps are left out later: they count when it is asked how close the closest is.
_AND_HIDDEN = "%(most)s + (SELECT count(*) FROM passages WHERE namespace = %(ns)s AND step = ANY(%(hidden)s::bigint[]))"


def within_spans(condition: Condition, spans: Sequence[tuple[float, float]]) -> Condition:
    """Return a condition within spans of time, each from its start to before its end."""
    starts = {f"from{number}": start for number, (start, _) in enumerate(spans)}
    ends = {f"to{number}": end for number, (_, end) in enumerate(spans)}
    among = " OR ".join(f"(s.time >= %(from{number})s AND s.time < %(to{number})s)" for number in range(len(spans)))
    return Condition(
        f"{condition.of_steps} AND ({among})", condition.of_passages, {**condition.values, **starts, **ends}
    )


def within(namespace: int, condition: Condition) -> Statement:
    """Return the statement that counts the passages within a filter, which `nearest` must find before it."""
    return _WITHIN.format(joined=STEPS, where=condition.of_steps + condition.of_passages), {
        "ns": namespace,
        **condition.values,
    }


def nearest(
    namespace: int,
    embedder: str,
    vectors: Sequence[Half],
    dimensions: int,
    condition: Condition,
    hidden: Sequence[int],
    most: int,
    has_index: bool,
) -> Statement:
    """Return the statement that finds the passages nearest to any of the vectors, within a filter, and `hidden` ones.

    Where few are within it they are compared one by one, index or not.
    """
    values: dict[str, Any] = {"ns": namespace, "embedder": embedder, "hidden": list(hidden), "most": most}
    values |= condition.values
    values |= {f"v{number}": vector for number, vector in enumerate(vectors)}
    column = f"v.vector::halfvec({dimensions})"
    asked = [f"%(v{number})b::halfvec({dimensions})" for number in range(len(vectors))]
    most_of = _AND_HIDDEN if hidden else "%(most)s"
    by_index = _by_index(column, asked, condition, most_of)
    one_by_one = _one_by_one(column, asked, condition, most_of)
    if not (has_index and condition):
        return by_index.format(gate="") if has_index else one_by_one.format(gate=""), values
    few = _FEW_WITHIN.format(few=FEW)
    among_many, among_few = by_index.format(gate=f" AND NOT {few}"), one_by_one.format(gate=f" AND {few}")
    return f"{among_many} UNION ALL ({among_few})", values


def _by_index(column: str, asked: Sequence[str], condition: Condition, most: str) -> str:
    kept = ""
    if condition:
        step = f" {STEPS}" if condition.of_steps else ""
        where = f"p.namespace = v.namespace AND p.id = v.passage{condition.of_passages}{condition.of_steps}"
        kept = f" AND EXISTS (SELECT 1 FROM passages p{step} WHERE {where} OFFSET 0)"
    found = f"SELECT v.passage FROM vectors v WHERE {_OF_EMBEDDER}{{gate}}{kept}"
    each = (f"({found} ORDER BY {column} <#> {vector} LIMIT {most})" for vector in asked)
    return " UNION ALL ".join(each)


def _one_by_one(column: str, asked: Sequence[str], condition: Condition, most: str) -> str:
    closest = f"least({', '.join(f'{column} <#> {vector}' for vector in asked)})"
    among = f"vectors v WHERE {_OF_EMBEDDER}{{gate}}"
    if condition.of_steps:  # with OFFSET 0 the steps come first, or the planner may compare all passages
        among = (
            f"(SELECT s.number FROM steps s WHERE s.namespace = %(ns)s{{gate}}{condition.of_steps} OFFSET 0) s "
            "CROSS JOIN LATERAL (SELECT p.id FROM passages p "
            f"WHERE p.namespace = %(ns)s AND p.step = s.number{condition.of_passages} OFFSET 0) p "
            f"CROSS JOIN LATERAL (SELECT * FROM vectors v WHERE {_OF_EMBEDDER} AND v.passage = p.id OFFSET 0) v"
        )
    elif condition:
        among = (
            "passages p JOIN vectors v ON v.namespace = p.namespace AND v.passage = p.id "
            f"WHERE p.namespace = %(ns)s AND {_OF_EMBEDDER}{{gate}}{condition.of_passages}"
        )
    return f"SELECT v.passage FROM {among} ORDER BY {closest}, v.passage LIMIT {most}"


def index_name(namespace: int, embedder: str) -> str:
    """Return the name of the index of a namespace's vectors of an embedder."""
    return f"vectors_nearest_{_unsigned(namespace):016x}_{_unsigned(hash_of(embedder)):016x}"


def _unsigned(number: int) -> int:
    return number & (1 << 64) - 1


def index_sql(namespace: int, embedder: str, dimensions: int) -> str:
    """Return the statement that makes such an index while others read and write."""
    quoted = embedder.replace("'", "''")
    return _INDEX.format(
        name=index_name(namespace, embedder),
        dimensions=dimensions,
        links=LINKS,
        candidates=CANDIDATES,
        namespace=namespace,
        embedder=f"'{quoted}'",
    )
