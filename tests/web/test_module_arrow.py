"""static/arrow.js in Node.js: it reads what pyarrow writes."""

import base64
import json
import math
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.tables.ingest import decode
from tables.samples import SCHEMAS

NODE = shutil.which("node")
STATIC = Path(decode.__file__).parents[1] / "static"
READER = Path(__file__).parent / "module" / "arrow.mjs"
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("at", pa.timestamp("ms", "UTC")),
    ]
)
TYPES = [["text", "string"], ["whole", "int64"], ["real", "double"], ["at", "timestamp"]]
SAFE = 2**53 - 1
Row = tuple[str | None, int | None, float | None, int | None]

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


def stream(*batches: pa.RecordBatch, schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


Read = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    """Decode streams in one Node.js process."""
    assert NODE is not None
    command = [NODE, str(READER), str(STATIC / "arrow.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        requests, responses = node.stdin, node.stdout

        def reading(*streams: bytes) -> list[dict[str, Any]]:
            found = []
            for stream_bytes in streams:
                requests.write(base64.b64encode(stream_bytes) + b"\n")
                requests.flush()
                found.append(json.loads(responses.readline()))
            return found

        yield reading
        requests.close()
        assert node.wait(10) == 0


def expected(rows: list[Row]) -> list[list[Any]]:
    return [list(map(_cell, column)) for column in zip(*rows, strict=True)] or [[], [], [], []]


def _cell(cell: str | float | None) -> Any:
    if isinstance(cell, int):
        return cell if abs(cell) <= SAFE else {"bigint": str(cell)}
    if isinstance(cell, float):
        return "NaN" if math.isnan(cell) else struct.pack(">d", cell).hex()
    return cell


INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([SAFE, SAFE + 1, -SAFE, -SAFE - 1])
TEXT = st.text() | st.text("abc") | st.sampled_from(["", "\ufeffBOM", "é", "😀", "\0"])
ROWS = st.lists(
    st.tuples(*(st.none() | kind for kind in (TEXT, INT64, st.floats(), INT64))), max_size=20
)


@given(st.lists(ROWS, max_size=3))
def test_pyarrow_streams_are_decoded(read: Read, batches: list[list[Row]]) -> None:
    rows = [row for rows in batches for row in rows]
    (found,) = read(stream(*map(batch, batches)))
    assert found == {"fields": TYPES, "columns": expected(rows), "length": len(rows)}


def test_slices_and_all_livejoin_schemas_are_decoded(read: Read) -> None:
    rows: list[Row] = [(f"ä{n}", None if n % 3 else n, n / 2, n) for n in range(100)]
    tables = [stream(schema=schema) for schema in SCHEMAS.values()]
    sliced, plain, *empty = read(
        stream(batch(rows).slice(33, 9)), stream(batch([("abc", 1, 1.5, 2)] * 3)), *tables
    )
    assert sliced["columns"] == expected(rows[33:42])
    assert plain["columns"][0] == ["abc"] * 3
    for table, schema in zip(empty, SCHEMAS.values(), strict=True):
        assert [name for name, _ in table["fields"]] == schema.names
        assert table["length"] == 0


FLAGS = st.lists(st.none() | st.booleans(), max_size=20)


@given(FLAGS, st.integers(0, 20))
def test_booleans_are_decoded(read: Read, flags: list[bool | None], skipped: int) -> None:
    sent = pa.record_batch({"flag": pa.array(flags, pa.bool_())}).slice(skipped)
    (found,) = read(stream(sent, schema=sent.schema))
    assert found["fields"] == [["flag", "boolean"]]
    assert found["columns"] == [flags[skipped:]]


DIGITS = st.integers(-(10**38) + 1, 10**38 - 1) | st.sampled_from([0, 1, -1, 2**63, -(2**64)])


@given(st.lists(st.none() | DIGITS, max_size=20), st.integers(0, 38), st.integers(0, 20))
def test_decimals_are_decoded_as_text_with_all_places(
    read: Read, digits: list[int | None], places: int, skipped: int
) -> None:
    context = Context(prec=38)
    cells = [None if d is None else Decimal(d).scaleb(-places, context) for d in digits]
    array = pa.array(cells, pa.decimal128(38, places))
    sent = pa.record_batch({"paid": array}).slice(skipped)
    (found,) = read(stream(sent, schema=sent.schema))
    assert found["fields"] == [["paid", f"decimal(38,{places})"]]
    expected_texts = [None if cell is None else f"{cell:f}" for cell in cells[skipped:]]
    assert found["columns"] == [expected_texts]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (pa.int32(), "column x has an unsupported type: int"),
        (pa.uint64(), "column x has an unsupported type: int"),
        (pa.float32(), "column x has an unsupported type: float"),
        (pa.timestamp("us"), "column x has an unsupported type: timestamp"),
        (pa.decimal256(40, 2), "column x has an unsupported type: decimal"),
        (pa.list_(pa.int64()), "column x has an unsupported type: unknown"),
        (
            pa.dictionary(pa.int32(), pa.string()),
            "column x is dictionary-encoded, which is not supported",
        ),
    ],
    ids=str,
)
def test_unsupported_types_are_named(read: Read, kind: pa.DataType, why: str) -> None:
    assert read(stream(schema=pa.schema([("x", kind)]))) == [{"error": why}]


def test_damaged_streams_are_errors(read: Read) -> None:
    whole = stream(batch([("abc", 1, 1.5, 2)] * 3))
    compressed = stream(batch([("abc", 1, 1.5, 2)] * 3), compression="zstd")
    cut, garbage, empty, compressed_reply = read(whole[:-60], b"rubbish " * 4, b"", compressed)
    assert "error" in cut
    assert garbage == {"error": "not an Arrow IPC stream"}
    assert empty == {"error": "Arrow stream has no schema"}
    assert compressed_reply == {"error": "compressed Arrow data is not supported"}


ROOT = Path(__file__).parents[2]
# tsc has parsed everything in static/
FILES = [*sorted(ROOT.glob("clients/plain/*.js")), ROOT / "clients" / "angular" / "build.mjs"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_hand_written_javascript_parses(file: Path) -> None:
    assert NODE is not None
    checked = subprocess.run(
        [NODE, "--input-type=module", "--check"],
        input=file.read_bytes(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr.decode()
