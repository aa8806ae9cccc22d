"""static/protocol/table_hash.js in Node.js: the same hash as livejoin/row_hash.py, bit for bit."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.modelled import table_hash
from livejoin.tables.ingest import decode

NODE = shutil.which("node")
STATIC = Path(decode.__file__).parents[1] / "static"
DRIVER = Path(__file__).parent / "module" / "hashing.mjs"
VECTORS = sorted((Path(__file__).parents[2] / "docs").glob("live-protocol-*vectors.json"))
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("_id", pa.string()),
        ("_ts", pa.timestamp("ms", "UTC")),
    ]
)
Part = tuple[str, bytes]
Follow = Callable[[list[Part]], dict[str, Any]]
Row = dict[str, Any]

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def follow() -> Iterator[Follow]:
    """Hash a table from its parts, in one Node.js process, starting empty each time."""
    assert NODE is not None
    command = [NODE, str(DRIVER), str(STATIC / "protocol" / "table_hash.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        requests, responses = node.stdin, node.stdout

        def following(parts: list[Part]) -> dict[str, Any]:
            plain = [[kind, base64.b64encode(data).decode()] for kind, data in parts]
            requests.write(json.dumps(plain).encode() + b"\n")
            requests.flush()
            found: dict[str, Any] = json.loads(responses.readline())
            return found

        yield following
        requests.close()
        assert node.wait(10) == 0


def stream(table: pa.Table, max_rows: int | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def expected(rows: list[Row]) -> dict[str, Any]:
    return {"rows": len(rows), "hash": table_hash(arrow(rows))}


def followed(follow: Follow, *parts: Part) -> dict[str, Any]:
    found = follow(list(parts))
    return {"rows": found["rows"], "hash": found["hash"]}


def test_hashes_match_the_protocol_vectors(follow: Follow) -> None:
    parts: dict[str, list[Part]] = {}
    checked = 0
    for vector in (vector for file in VECTORS for vector in json.loads(file.read_text())):
        frame = base64.b64decode(vector["frame"])
        at = 4 + int.from_bytes(frame[:4], "big")
        for part in json.loads(frame[4:at])["parts"]:
            data = frame[at : at + part["bytes"]]
            parts.setdefault(part["table"], []).append((part["kind"], data))
            at += part["bytes"]
        for table, held in vector["tables"].items():
            found = followed(follow, *parts[table])
            assert found == {"rows": len(held["rows"]), "hash": held["hash"]}
            checked += 1
    assert checked > 10


IDS = st.sampled_from("abcdefé")
CELLS = {
    "text": st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["", "\ufeff", "😀"]),
    "whole": st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, -(2**63), 2**63 - 1, 0, -1]),
    "real": st.floats(allow_nan=False) | st.sampled_from([-0.0, 0.0, 5e-324, 1e308, 0.1]),
    "_ts": st.integers(-(2**62), 2**62),
}
ROW = st.fixed_dictionaries({name: st.none() | cell for name, cell in CELLS.items()} | {"_id": IDS})
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("snapshot"), st.lists(ROW, max_size=5, unique_by=lambda row: row["_id"])),
        st.tuples(st.just("upsert"), st.lists(ROW, max_size=5)),
        st.tuples(st.just("remove"), st.lists(IDS, max_size=3)),
    ),
    max_size=6,
)


@given(STEPS)
def test_any_sequence_of_parts_gives_the_hash_of_the_rows(
    follow: Follow, steps: list[tuple[str, list[Any]]]
) -> None:
    rows: dict[str, Row] = {}
    parts: list[Part] = []
    for kind, what in steps:
        if kind == "remove":
            parts.append((kind, stream(pa.table({"_id": pa.array(what, pa.string())}))))
            for row_id in what:
                rows.pop(row_id, None)
            continue
        parts.append((kind, stream(arrow(what), max_rows=2)))
        if kind == "snapshot":
            rows = {}
        rows.update({row["_id"]: row for row in what})
    assert followed(follow, *parts) == expected(list(rows.values()))


def test_booleans_and_decimals_have_the_documented_hash(follow: Follow) -> None:
    """A byte of a boolean, 16 of a decimal's digits; the value is that of docs/live-protocol.md."""
    table = pa.table(
        {
            "paid": pa.array([True, False], pa.bool_()),
            "total": pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(12, 2)),
            "_id": ["0-0", "0-1"],
            "_ts": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        }
    )
    found = followed(follow, ("snapshot", stream(table)))
    assert found == {"rows": 2, "hash": "b02e3fb44387b6ae"}


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("whole", 2**53, 2**53 + 1),
        ("whole", 2**63 - 1, -(2**63)),
        ("real", 0.0, -0.0),
        ("real", None, 0.0),
        ("text", None, ""),
        ("text", "é", "e\u0301"),
        ("_ts", 0, 1),
    ],
)
def test_one_cell_changes_the_hash(follow: Follow, column: str, first: Any, second: Any) -> None:
    plain = {"text": "a", "whole": 1, "real": 1.5, "_id": "0-0", "_ts": 1000}
    found = [
        followed(follow, ("snapshot", stream(arrow([{**plain, column: cell}]))))
        for cell in (first, second)
    ]
    assert found == [expected([{**plain, column: cell}]) for cell in (first, second)]
    assert found[0] != found[1]


def test_many_rows_and_a_large_cell_are_hashed_in_slices(follow: Follow) -> None:
    rows = [
        {"text": f"name {n}", "whole": n, "real": n / 4, "_id": f"0-{n}", "_ts": n}
        for n in range(20_000)
    ]
    rows.append({"text": "ä" * (1 << 19), "whole": 1, "real": 1.0, "_id": "large", "_ts": 1})
    found = follow(
        [("snapshot", stream(arrow(rows), max_rows=7000)), ("upsert", stream(arrow(rows)))]
    )
    assert found == {**expected(rows), "pauses": found["pauses"]}
    assert found["pauses"] > 100  # the page stays responsive
