"""Changelog records of every shape, for hypothesis."""

import base64
from typing import Any

from hypothesis import strategies as st

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord, Position, Version
from rig.reference_changelog import Bundle, pair_id

INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0, -1])
TEXT = st.text() | st.sampled_from(
    ["", " ", "null", '"\\/\b\f\n\r\t', "\0", "ä€😀", "\u2028\uffff\ufeff", "e\u0301", "\U0010ffff"]
)
TS = st.integers(-1, 253_402_300_799_999)  # Kafka's "no timestamp" to the end of the year 9999
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "int64": INT64,
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "timestamp": TS,
}
VERSIONS = st.none() | st.tuples(TS, st.integers(0, 3), st.integers(0, 2**62))
DATA = [name for name, table in spec.DEFAULT.tables.items() if table.data]


@st.composite
def rows(draw: st.DrawFn, table: str) -> dict[str, Any]:
    """A row as the pipeline writes it; a reject's raw bytes are base64."""
    columns = [c for c in spec.DEFAULT.tables[table].columns if c not in (spec.ID, spec.TS)]
    row = {c.name: draw(st.none() | CELLS[c.type]) for c in columns}
    if table == spec.REJECTS:
        raw = draw(st.none() | st.binary())
        row["raw"] = None if raw is None else base64.b64encode(raw).decode()
    return row


@st.composite
def ids(draw: st.DrawFn, table: str) -> str:
    """A row id of this table, from a small range so that ids repeat."""
    source = draw(st.sampled_from(spec.DEFAULT.sources)).name
    at = Position(source, draw(st.integers(0, 1)), draw(st.integers(0, 3)))
    if table == spec.REJECTS:
        return f"{source}/{at}"
    if table == spec.FINAL and draw(st.booleans()):
        return pair_id(at, Position("accounts", 0, draw(st.integers(0, 3))))
    return str(at)


@st.composite
def changes(
    draw: st.DrawFn, table: str, versions: st.SearchStrategy[Version] = VERSIONS
) -> ChangelogRecord:
    """A row or a removal."""
    row = draw(st.none() | rows(table))
    return ChangelogRecord(table, draw(ids(table)), row, draw(TS), draw(versions))


@st.composite
def bundled(draw: st.DrawFn) -> Bundle:
    """A bundle as a join writes it: the join key and the cells of one side are shared."""
    columns = {c.name: c.type for c in spec.DEFAULT.tables[spec.FINAL].columns}
    sides = [("name", "email", "age"), ("accountType", "balance")]
    shared, own = draw(st.permutations(sides))

    def cells(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: draw(CELLS[columns[name]]) for name in names if draw(st.booleans())}

    row_ids = draw(st.lists(ids(spec.FINAL), min_size=1, max_size=40, unique=True))
    row = {spec.DEFAULT.key.name: draw(TEXT), **cells(shared)}
    if draw(st.booleans()):
        return Bundle(spec.FINAL, row_ids, draw(TS), draw(VERSIONS))
    own_rows = [{"ts": draw(TS), **cells(own)} for _ in row_ids]
    return Bundle(spec.FINAL, row_ids, draw(TS), draw(VERSIONS), row, own_rows)
