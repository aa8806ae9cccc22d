"""Tables of a spec with several lookups, all types and clashing names; changes of the spec."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from livejoin.core.changelog import BUNDLE_PREFIX, ChangelogRecord
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.catalog import Catalog
from rig.reference_changelog import Bundle
from tables import orders, samples
from tables.orders import DECODER, ORDER, ORDERS

LOWEST = -(2**63)
AT = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


def _decoded(*changes: ChangelogRecord) -> ChangeBatch:
    table = DECODER.tables[changes[0].table]
    return table.decode_records([c.id for c in changes], [c.value() for c in changes])


@pytest.mark.parametrize("count", [1, 100], ids=["one by one", "in bulk"])
def test_each_type_keeps_its_value_from_the_changelog_to_arrow(count: int) -> None:
    rows = _decoded(*(orders.order(n) for n in range(count))).rows
    assert rows.schema == pa.schema(
        {
            "orderId": pa.string(),
            "customerId": pa.string(),
            "total": pa.decimal128(12, 2),
            "at": pa.timestamp("ms", "UTC"),
            "paid": pa.bool_(),
            "_id": pa.string(),
            "_ts": pa.timestamp("ms", "UTC"),
        }
    )
    first = rows.to_pylist()[0]
    assert (first["total"], first["at"], first["paid"]) == (Decimal("12345678.90"), AT, True)


@pytest.mark.parametrize("count", [1, 100], ids=["one by one", "in bulk"])
def test_a_record_of_a_source_has_the_joined_names_and_its_table_the_names_of_the_source(
    count: int,
) -> None:
    cells = {"customerId": "c1", "name": "Ada", "customers_at": 7}
    changes = [ChangelogRecord("customers_ui", f"0-{n}", cells, 5) for n in range(count)]
    row = samples.plain(_decoded(*changes).rows)[0]
    assert row == {"id": "c1", "name": "Ada", "at": 7, "_id": "0-0", "_ts": 5}


@pytest.mark.parametrize("count", [1, 100], ids=["one by one", "in bulk"])
def test_a_joined_row_has_a_version_of_each_lookup(count: int) -> None:
    value = (
        b'{"row":{"customerId":"c1","payments_paid":"0.0000000001"},"ts":9,'
        b'"versions":{"payments":[7,1,2]}}'
    )
    none = b'{"row":{"customerId":"c1"},"ts":9}'
    ids = [f"0-{number}" for number in range(2 * count)]
    decoded = DECODER.tables["final_ui"].decode_records(ids, [value, none] * count)
    assert decoded.versions.tolist()[:2] == [[LOWEST] * 3 + [7, 1, 2], [LOWEST] * 6]
    assert decoded.rows.column("payments_paid").to_pylist()[:2] == [Decimal("1e-10"), None]


def test_a_bundle_has_its_versions_once() -> None:
    shared = {"customerId": "c1", "payments_paid": "1.5000000000"}
    text = Bundle("final_ui", ("0-3", "0-4"), 5, None, shared, ({"ts": 1}, {"ts": 2})).value()
    text = text.replace(b'"ts":5,', b'"ts":5,"versions":{"customers":[5,0,1]},', 1)
    key = f"{BUNDLE_PREFIX}final_ui/0-3".encode()
    ((table, batch),) = DECODER.decode_chunk(1, 1, [(key, text)]).batches
    assert (table, batch.ids) == ("final_ui", ["0-3", "0-4"])
    assert batch.versions.tolist() == [[5, 0, 1] + [LOWEST] * 3] * 2
    assert batch.rows.column("payments_paid").to_pylist() == [Decimal("1.5")] * 2


def test_records_are_counted_by_the_sources_of_their_spec() -> None:
    catalog = Catalog(ORDERS)
    catalog.apply_state(orders.live(1))
    catalog.apply(orders.chunk(1, 3, orders.order(0), samples.reject("payments", 4)))
    assert {source: counts["read"] for source, counts in catalog.counts().items()} == {
        "orders": 1,
        "customers": 0,
        "payments": 1,
    }


def _columns(catalog: Catalog, table: str) -> list[str]:
    names: list[str] = catalog.store(table).schema.names
    return names


def test_the_tables_are_those_of_the_settings_until_a_generation_is_live() -> None:
    catalog = Catalog(ORDERS)
    assert catalog.data_tables == (
        *("orders_ui", "customers_ui", "payments_ui", "final_ui", "rejects_ui"),
    )
    assert _columns(catalog, "orchestrator_status")[:4] == [
        *("ordersTopic", "customersTopic", "paymentsTopic", "joinType"),
    ]


def test_a_live_generation_has_its_own_tables_also_before_its_rows_are_read() -> None:
    catalog = Catalog(ORDERS)
    catalog.apply_state(samples.live(1, ready_at=10))
    assert catalog.generation is None
    assert catalog.data_tables == samples.DATA_TABLES
    catalog.apply(samples.chunk(1, 10, samples.user(1)))
    assert catalog.generation == 1
    catalog.reset()
    assert "orders_ui" in catalog.data_tables


class Listener:
    """Notes which tables were replaced."""

    def __init__(self, catalog: Catalog) -> None:
        self.replaced: list[set[str]] = []
        catalog.listeners.append(self)

    def on_change(self, table: str, delta: Any) -> None:
        pass

    def on_cutover(self, replaced: Any) -> None:
        self.replaced.append(set(replaced))


def test_a_cutover_to_another_spec_changes_the_columns_of_the_system_tables() -> None:
    catalog = Catalog()
    listener = Listener(catalog)
    catalog.apply_state(samples.live(1))
    status = {"usersTopic": "a", "accountsTopic": "b", "joinType": "left", "state": "live"}
    catalog.set_status(status)
    catalog.system.put_generations({1: {"generation": 1, "usersTopic": "a", "state": "live"}})
    catalog.system.add_log_lines([samples.line(1)])
    catalog.apply_state(orders.live(2))
    own = {"orchestrator_status", "control_raw", "generations"}
    assert listener.replaced == [set(samples.DATA_TABLES), {*ORDERS.data_tables, *own}]
    assert "usersTopic" not in _columns(catalog, "orchestrator_status")
    row = catalog.store("generations").snapshot().to_pylist()[0]
    assert (row["generation"], row["state"], row["ordersTopic"]) == (1, "live", None)
    catalog.set_status({"ordersTopic": "o", "state": "live"})
    assert catalog.store("orchestrator_status").snapshot().to_pylist()[0]["ordersTopic"] == "o"
    assert catalog.store("orchestrator_logs").snapshot().num_rows == 1


def test_an_old_generation_is_decoded_by_its_own_spec_beside_a_new_one() -> None:
    catalog = Catalog(ORDERS)
    catalog.apply_state(samples.live(1))
    catalog.apply(samples.chunk(1, 1, samples.user(1)))
    assert samples.plain(catalog.store("users_ui").snapshot())[0]["name"] == "Ada"
    catalog.apply_state(orders.live(2))
    catalog.apply(orders.chunk(2, 1, orders.order(1)))
    row = catalog.store("orders_ui").snapshot().to_pylist()[0]
    assert (row["orderId"], row["total"]) == (ORDER["orderId"], Decimal("12345678.90"))
