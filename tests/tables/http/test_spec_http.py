"""The HTTP API over tables of a spec with several lookups and all types."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.catalog import Catalog
from tables import orders
from tables.live_server import RunningServer, run_server
from tables.orders import ORDERS
from tables.samples import chunk, live, user

ROWS: list[dict[str, Any]] = [
    {"orderId": "a", "total": "0.10", "at": 1_700_000_000_123, "paid": True},
    {"orderId": "b", "total": "-3.00", "at": -62_135_596_800_000, "paid": False},
    {"orderId": "c", "total": "9999999999.99", "at": 253_402_300_799_999, "paid": None},
    {"orderId": "d", "total": None, "at": None, "paid": None},
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    catalog = Catalog(ORDERS)
    catalog.apply_state(orders.live(1))
    changes = [orders.order(n, customerId=f"c{n}", **cells) for n, cells in enumerate(ROWS)]
    customers = [
        ChangelogRecord("customers_ui", f"0-{n}", {"customerId": f"c{n}"}, 5) for n in (0, 1, 7)
    ]
    paid = {"customerId": "c1", "payments_paid": "0.0000000001"}
    payment = ChangelogRecord("payments_ui", "0-0", paid, 5)
    catalog.apply(orders.chunk(1, 9, *changes, *customers, payment))
    with run_server(catalog) as server:
        yield server


def ask(server: RunningServer, table: str = "orders_ui", **parameters: str) -> bytes:
    response = server.request(f"/api/v1/tables/{table}?{urlencode(parameters)}")
    assert response.status == 200, response.body
    return response.body


def test_json_has_decimals_as_text_times_in_iso_8601_and_booleans(server: RunningServer) -> None:
    columns = "total,at,paid"
    expected = [
        {"total": "0.10", "at": "2023-11-14T22:13:20.123Z", "paid": True},
        {"total": "-3.00", "at": "0001-01-01T00:00:00.000Z", "paid": False},
        {"total": "9999999999.99", "at": "9999-12-31T23:59:59.999Z", "paid": None},
        {"total": None, "at": None, "paid": None},
    ]
    assert json.loads(ask(server, columns=columns))["rows"] == expected
    lines = ask(server, columns=columns, format="ndjson").splitlines()
    assert [json.loads(line) for line in lines] == expected


def test_a_small_decimal_has_all_its_places(server: RunningServer) -> None:
    rows = json.loads(ask(server, "payments_ui", columns="paid"))["rows"]
    assert rows == [{"paid": "0.0000000001"}]
    assert b'"0.0000000001"' in ask(server, "payments_ui", columns="paid", format="csv")


def test_csv_has_the_same_texts_and_negative_numbers_are_no_formulas(server: RunningServer) -> None:
    text = ask(server, columns="total,at,paid", format="csv").decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["total", "at", "paid"]
    assert rows[2] == ["-3.00", "0001-01-01 00:00:00.000Z", "false"]
    assert rows[4] == ["", "", ""]


def test_arrow_has_the_types_of_the_table(server: RunningServer) -> None:
    with pa.ipc.open_stream(ask(server, columns="total,paid", format="arrow")) as stream:
        assert stream.schema == pa.schema({"total": pa.decimal128(12, 2), "paid": pa.bool_()})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("total = 0.1", "a"),
        ("total = 0.100", "a"),
        ("total != 0.1", "bc"),
        ("total > 0.0999999", "ac"),
        ("total >= 0.1000000000000000000000001", "c"),
        ("total < 0.1", "b"),
        ("total <= 9999999999.99", "abc"),
        ("total < 9999999999.99", "ab"),
        ("total < 9999999999.991", "abc"),
        ("total = 9999999999.991", ""),
        ("total > 1e300", ""),
        ("total > -1e300", "abc"),
        ("total < -3", ""),
        ("total <= -2.999", "b"),
        ("total is null", "d"),
        ("paid = true", "a"),
        ("paid != true", "b"),
        ("at < 1970-01-01", "b"),
        ("at = 2023-11-14T22:13:20.123Z", "a"),
        ("at > 9999-12-31T23:59:59.998Z", "c"),
    ],
)
def test_filters_compare_exactly(server: RunningServer, condition: str, expected: str) -> None:
    rows = json.loads(ask(server, filter=condition))["rows"]
    assert "".join(row["orderId"] for row in rows) == expected


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ('total = "1"', "expected decimal(12,2) for total"),
        ("paid > true", "compare it with = or !="),
        ("at = 1", "expected a time for at"),
    ],
)
def test_a_value_of_another_type_is_an_error(
    server: RunningServer, condition: str, why: str
) -> None:
    path = f"/api/v1/tables/orders_ui?{urlencode({'filter': condition})}"
    response = server.request(path)
    assert response.status == 400
    assert why in response.json()["detail"]


@pytest.mark.parametrize(
    ("order", "expected"), [("total", "bacd"), ("-at", "cabd"), ("paid,orderId", "bacd")]
)
def test_rows_are_sorted_by_value(server: RunningServer, order: str, expected: str) -> None:
    rows = json.loads(ask(server, sort=order))["rows"]
    assert "".join(row["orderId"] for row in rows) == expected


def test_the_spec_tells_sources_tables_and_control_fields(server: RunningServer) -> None:
    found = server.request("/api/v1/spec").json()
    assert found["generation"] == 1
    assert (found["driver"], found["lookups"]) == ("orders", ["customers", "payments"])
    sources = [{name: one[name] for name in ("name", "key", "fields")} for one in found["sources"]]
    assert {"sources": sources} == ORDERS.to_json()
    assert [source["table"] for source in found["sources"]] == [*ORDERS.data_tables[:3]]
    columns = {table["name"]: table["columns"] for table in found["tables"]}
    assert {"name": "payments_paid", "type": "decimal(38,10)"} in columns["final_ui"]
    assert columns.keys() == ORDERS.all_tables.keys()


def test_openapi_and_figures_are_those_of_the_served_spec(server: RunningServer) -> None:
    schemas = server.request("/openapi.json").json()["components"]["schemas"]
    assert schemas["Table"]["properties"]["table"]["enum"] == list(ORDERS.all_tables)
    assert list(schemas["Row_orders_ui"]["properties"]) == [
        *("orderId", "customerId", "total", "at", "paid", "_id", "_ts"),
    ]
    figures = server.request("/api/v1/figures").json()
    assert figures["matched"] == {"orders": 4, "matched": 1, "unmatched": 3}
    assert figures["lookups"] == {
        "customers": {"matched": 2, "unmatched": 2},
        "payments": {"matched": 1, "unmatched": 3},
    }


def test_metrics_are_labelled_by_source(server: RunningServer) -> None:
    text = server.request("/metrics").body.decode()
    assert 'livejoin_source_rows_total{source="payments"} 1.0' in text
    assert 'livejoin_table_rows{table="orders_ui"} 4.0' in text
    assert "users" not in text


def test_a_cutover_changes_the_routes_to_its_tables() -> None:
    with run_server(Catalog()) as server:
        server.follow(live(1))
        server.run_on_loop(lambda catalog: catalog.apply(chunk(1, 1, user(0))))
        assert server.request("/api/v1/tables/users_ui").status == 200
        server.follow(orders.live(2))
        assert server.request("/api/v1/tables/users_ui").status == 404
        assert server.request("/api/v1/tables/orders_ui").status == 200
        rows = server.request("/api/v1/generations").json()["generations"]
        assert rows == []
