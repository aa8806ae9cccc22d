"""Joined rows of several lookups, compared with a plain reference that merges part by part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode, segments
from livejoin.tables.ingest.arrow_schema import as_json
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.merge import RowParts
from livejoin.tables.ingest.row_limits import Cap
from livejoin.tables.ingest.store import Delta, Store
from tables import orders
from tables.orders import DECODER, ORDER, ORDERS

TABLE = DECODER.tables["final_ui"]
PARTS = RowParts.of(ORDERS)
LOOKUPS = ("customers", "payments")
VERSIONS = st.none() | st.tuples(st.integers(0, 2), st.integers(0, 1), st.just(0))
Version = tuple[int, int, int]
Row = dict[str, Any]


def record(row_id: str, customer: Version | None, payment: Version | None) -> ChangelogRecord:
    """A joined row; the cells of a lookup follow from its version, as they do in a topic."""
    row = dict(ORDER, orderId=row_id)
    versions = {}
    if customer is not None:
        versions["customers"] = customer
        row |= {"name": f"name {customer}", "customers_at": customer[0]}
    if payment is not None:
        versions["payments"] = payment
        row["payments_paid"] = f"{payment[0]}.{payment[1]:010}"
    ts = max([1, *(version[0] for version in versions.values())])
    return ChangelogRecord("final_ui", row_id, row, ts, versions=versions)


RECORDS = st.lists(
    st.builds(record, st.sampled_from(["0-0", "0-1", "1-0"]), VERSIONS, VERSIONS), max_size=8
)


@dataclass
class Reference:
    """Rows as the definition says: of each lookup the cells with the highest version."""

    versions: dict[str, dict[str, Version]] = field(default_factory=dict)
    last: dict[str, Mapping[str, Version]] = field(default_factory=dict)

    def apply(self, one: ChangelogRecord) -> None:
        self.last[one.id] = one.versions
        held = self.versions.setdefault(one.id, {})
        for lookup, version in one.versions.items():
            held[lookup] = max(version, held.get(lookup, version))

    def rows(self) -> dict[str, Row]:
        found = {}
        for row_id, versions in self.versions.items():
            whole = record(row_id, versions.get("customers"), versions.get("payments"))
            cells = {name: (whole.row or {}).get(name) for name in TABLE.schema.names}
            found[row_id] = cells | {"_id": row_id, "_ts": whole.ts}
        return found

    def behind(self) -> set[str]:
        """Rows whose last record lacks what an earlier one had."""
        return {row_id for row_id, last in self.last.items() if last != self.versions[row_id]}


def decoded(records: Sequence[ChangelogRecord]) -> ChangeBatch:
    return TABLE.decode_records([r.id for r in records], [r.value() for r in records])


def rows_of(table: Any) -> dict[str, Row]:
    return {row["_id"]: row for row in as_json(table).to_pylist()}


def new_store(cap: Cap | None = None) -> Store:
    return Store(TABLE.schema, cap, PARTS)


@pytest.fixture(scope="module", params=[32, 0], ids=["one by one", "in bulk"])
def _decoders(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small segments, and records that are decoded in both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_FEW_RECORDS", request.param)
        patch.setattr(segments, "_MIN_DEAD_ROWS", 0)
        patch.setattr(segments, "SEGMENT_ROWS", 5)
        yield


@pytest.mark.usefixtures("_decoders")
@settings(max_examples=50)
@given(RECORDS, st.data())
def test_any_order_repetition_and_batching_of_records_gives_the_same_rows(
    records: list[ChangelogRecord], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(records + data.draw(st.permutations(records))[:4]))
    store, reference, viewer = new_store(), Reference(), dict[str, Row]()
    while order:
        size = data.draw(st.integers(1, 6))
        batch, order = order[:size], order[size:]
        for one in batch:
            reference.apply(one)
        delta: Delta = store.apply(decoded(batch))
        for row_id, row in rows_of(delta.upserts).items():
            viewer[row_id] = row
        assert not delta.removed
        assert rows_of(store.snapshot()) == reference.rows() == viewer
        assert store.needs_rewrite == reference.behind()
    fresh = new_store()
    for row_id, versions in reference.versions.items():
        whole = record(row_id, versions.get("customers"), versions.get("payments"))
        fresh.apply(decoded([whole]))
    assert (store.hash, len(store)) == (fresh.hash, len(fresh))


def test_a_merged_row_is_written_again_with_all_its_parts() -> None:
    store = new_store()
    store.apply(decoded([record("0-0", (5, 0, 0), (1, 0, 0))]))
    store.apply(decoded([record("0-0", (0, 0, 0), (3, 0, 0))]))
    assert store.needs_rewrite == {"0-0"}
    (written,) = store.winning_records("final_ui", store.needs_rewrite)
    expected = record("0-0", (5, 0, 0), (3, 0, 0))
    assert {name: cell for name, cell in (written.row or {}).items() if cell is not None} == (
        expected.row
    )
    assert (written.versions, written.ts) == (expected.versions, 5)
    delta = store.apply(decoded([written]))
    assert delta.empty
    assert not store.needs_rewrite


def test_records_that_only_add_parts_are_not_copied_nor_written_again() -> None:
    store = new_store()
    store.apply(decoded([record(f"0-{n}", (1, 0, 0), None) for n in range(100)]))
    batch = decoded([record(f"0-{n}", (1, 0, 0), (2, 0, 0)) for n in range(100)])
    assert store.apply(batch).upserts is batch.rows
    assert not store.needs_rewrite


def test_a_full_table_keeps_the_highest_ranks_of_merged_rows() -> None:
    store = new_store(Cap(2))
    store.apply(decoded([record(f"0-{n}", (n, 0, 0), None) for n in (1, 2, 3)]))
    assert store.snapshot().column("_id").to_pylist() == ["0-2", "0-3"]
    store.apply(decoded([record("0-2", None, (9, 0, 0)), record("0-4", (4, 0, 0), None)]))
    rows = rows_of(store.snapshot())
    assert rows.keys() == {"0-2", "0-4"}
    assert (rows["0-2"]["_ts"], rows["0-2"]["customers_at"]) == (9, 2)


def test_the_catalog_merges_the_rows_of_a_generation_with_several_lookups() -> None:
    catalog = Catalog(ORDERS)
    catalog.apply_state(orders.live(1))
    for seq, one in enumerate([record("0-0", (1, 0, 0), None), record("0-0", None, (2, 0, 0))], 1):
        catalog.apply(orders.chunk(1, seq, one))
    (row,) = catalog.store("final_ui").snapshot().to_pylist()
    assert (row["name"], row["payments_paid"]) == ("name (1, 0, 0)", Decimal(2))
