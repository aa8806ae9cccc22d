"""Bulk decoding, compared with the record-by-record definition in `core.changelog`."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.changelog_strategies import DATA, bundled, changes
from livejoin import row_hash
from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord, Version
from livejoin.core.spec import DEFAULT
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.read_progress import ReadProgress, positions_of
from rig.reference_changelog import Bundle
from tables.samples import DECODER, SCHEMAS, chunk, final, plain, reject, tombstone, user

LOWEST = -(2**63)


def _decoded(table: str, written: list[ChangelogRecord]) -> ChangeBatch:
    return DECODER.tables[table].decode_records(
        [c.id for c in written], [c.value() for c in written]
    )


def _cells(change: ChangelogRecord) -> dict[str, Any]:
    cells = {name: (change.row or {}).get(name) for name in SCHEMAS[change.table].names}
    raw = cells.get("raw")
    if raw is not None:
        cells["raw"] = base64.b64decode(raw).decode(errors="backslashreplace")
    return cells | {"_id": change.id, "_ts": change.ts}


def _version(version: Version) -> list[int]:
    return [LOWEST] * 3 if version is None else list(version)


def _runs(table: str) -> st.SearchStrategy[list[ChangelogRecord]]:
    return st.lists(changes(table), min_size=1, max_size=8)


@given(st.sampled_from(DATA).flatmap(_runs))
def test_a_batch_of_records_is_decoded_as_defined(written: list[ChangelogRecord]) -> None:
    records = _decoded(written[0].table, written)
    assert records.ids == [change.id for change in written]
    assert records.present.tolist() == [change.row is not None for change in written]
    assert records.versions.tolist() == [_version(change.version) for change in written]
    # repr, since 0.0 == -0.0
    assert list(map(repr, plain(records.rows))) == [repr(_cells(change)) for change in written]


@given(bundled())
def test_a_bundle_is_decoded_as_defined(one: Bundle) -> None:
    written = one.records()
    records = DECODER.tables[one.table].decode_bundle(one.value())
    assert records.ids == [change.id for change in written]
    assert records.present.tolist() == [change.row is not None for change in written]
    assert records.versions.tolist() == [_version(change.version) for change in written]
    assert list(map(repr, plain(records.rows))) == [repr(_cells(change)) for change in written]
    if records.hashes is not None:
        assert np.array_equal(records.hashes, row_hash.hash_rows(records.rows))


def test_bundles_keep_their_place_among_other_records() -> None:
    first, last = final(1, "Ada"), final(2, "Alan")
    between = Bundle("final_ui", ("0-3", "0-4"), 5, None, {"userId": "a"}, ({"ts": 1}, {"ts": 2}))
    bundle, unknown = b"bundle/final_ui/0-3", b"bundle/a_table_of_tomorrow/0-3"
    records = [
        (first.key(), first.value()),
        *((bundle, between.value()), (unknown, between.value()), (bundle, between.value())),
        *((one.key(), one.value()) for one in (last, user(1))),
    ]
    decoded = DECODER.decode_chunk(7, 42, records)
    assert [(table, records.ids) for table, records in decoded.batches] == [
        ("final_ui", ["0-1"]),
        ("final_ui", ["0-3", "0-4"]),
        ("final_ui", ["0-3", "0-4"]),
        ("final_ui", ["0-2"]),
        ("users_ui", ["0-1"]),
    ]
    assert positions_of(decoded.read_offsets) == {"users": {0: 2}}


@pytest.mark.parametrize("table", DATA)
def test_columns_have_the_order_and_types_of_the_table(table: str) -> None:
    records = _decoded(table, [ChangelogRecord(table, "users/0-1", {}, 5)])
    arrow = {
        "string": pa.string(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("ms", "UTC"),
    }
    assert records.rows.schema == pa.schema(
        [(column.name, arrow[column.type]) for column in spec.DEFAULT.tables[table].columns]
    )


@pytest.mark.parametrize("age", [-(2**63), 2**63 - 1, 2**53 + 1])
def test_an_int64_keeps_all_its_bits(age: int) -> None:
    assert plain(_decoded("users_ui", [user(0, age=age)]).rows)[0]["age"] == age


def test_a_batch_of_removals_only_is_decoded() -> None:
    removals = [
        ChangelogRecord("final_ui", "0-1", None, 5, (7, 0, 1)),
        ChangelogRecord("final_ui", "0-2", None, 6),
    ]
    records = _decoded("final_ui", removals)
    assert records.present.tolist() == [False, False]
    assert records.versions.tolist() == [[7, 0, 1], [LOWEST] * 3]


def test_an_unknown_field_is_ignored() -> None:
    records = DECODER.tables["users_ui"].decode_records(
        ["0-1"], [b'{"row":{"name":"a","x":{}},"ts":5,"y":[1]}']
    )
    assert plain(records.rows) == [_cells(ChangelogRecord("users_ui", "0-1", {"name": "a"}, 5))]


@given(st.binary())
@example(b"\xff\xfe{}")
@example("cut inside €".encode()[:-1])
def test_the_raw_bytes_of_a_reject_are_decoded_to_text(raw: bytes) -> None:
    row = {"source": "users", "raw": base64.b64encode(raw).decode()}
    shown = plain(_decoded("rejects_ui", [ChangelogRecord("rejects_ui", "users/0-1", row, 5)]).rows)
    assert shown[0]["raw"] == raw.decode(errors="backslashreplace")


def test_rows_built_by_the_server_are_all_present_and_of_one_version() -> None:
    rows = _decoded("users_ui", [user(0), user(1)]).rows
    made = ChangeBatch.from_rows(["a", "b"], rows, 3)
    assert made.present.tolist() == [True, True]
    assert np.array_equal(made.versions, [[3, 3, 3], [3, 3, 3]])


def test_a_chunk_is_decoded_into_one_batch_per_table_and_tombstones_are_only_counted() -> None:
    unknown = ChangelogRecord("a_table_of_tomorrow", "0-1", {"x": 1}, 5)
    decoded = chunk(
        7, 42, user(1), reject("users", 2), unknown, tombstone("accounts", 3), user(4, name="Alan")
    )
    assert (decoded.generation, decoded.seq) == (7, 42)
    assert {table: records.ids for table, records in decoded.batches} == {
        "users_ui": ["0-1", "0-4"],
        "rejects_ui": ["users/0-2"],
    }
    counted = ReadProgress(DEFAULT.source_names)
    counted.add(decoded.read_offsets)
    assert counted.counts() == {
        "users": {"read": 3, "rows": 2, "rejected": 1, "tombstones": 0},
        "accounts": {"read": 1, "rows": 0, "rejected": 0, "tombstones": 1},
    }
