"""`livejoin demo --example orders`: declared sources, two lookups, all types, seen from outside."""

import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest

from livejoin import client
from rig.running import START_S, until
from rig.running_demo import Demo, running_demo

Row = dict[str, Any]
COLUMNS = ["customerId", "orderId", "total", "city", "at", "name", "vip", "method", "paid"]
LOOKUPS = {"customers": ("id", ["name", "vip"]), "payments": ("customerId", ["method", "paid"])}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("orders"), "--example", "orders") as running:
        yield running


@pytest.fixture
def livejoin(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> Iterator[client.Connection]:
    for name in ("XDG_CONFIG_HOME", "LIVEJOIN_URL"):
        monkeypatch.setenv(name, demo.env[name])
    with client.connect() as connection:
        yield connection


def _rank(row: Row) -> tuple[Any, int, int]:
    """By timestamp, then partition, then offset."""
    partition, _, offset = row["_id"].partition("-")
    return row["_ts"], int(partition), int(offset)


def _joined(tables: dict[str, list[Row]]) -> dict[str, Row]:
    """The join of the sources' own tables, in plain Python."""
    latest: dict[str, dict[str, Row]] = {}
    for source, (key, _) in LOOKUPS.items():
        found = latest[source] = {}
        for row in sorted(tables[f"{source}_ui"], key=_rank):
            found[row[key]] = row
    return {
        order["_id"]: {
            **{name: order[name] for name in ("customerId", "orderId", "total", "city", "at")},
            **{
                name: latest[source].get(order["customerId"], {}).get(name)
                for source, (_, names) in LOOKUPS.items()
                for name in names
            },
        }
        for order in tables["orders_ui"]
    }


def _is_the_join(livejoin: client.Connection) -> bool:
    """Whether `final_ui` is the join of what the other tables show; they may move in between."""
    names = ("final_ui", "orders_ui", "customers_ui", "payments_ui")
    tables = {name: livejoin.table(name).to_arrow().to_pylist() for name in names}
    shown = {row["_id"]: {name: row[name] for name in COLUMNS} for row in tables["final_ui"]}
    return bool(shown) and shown == _joined(tables)


def test_the_join_is_that_of_its_sources_also_after_a_swap_and_a_rollback(
    demo: Demo, livejoin: client.Connection
) -> None:
    final = livejoin.table("final_ui")
    assert final.to_arrow().column_names == [*COLUMNS, "_id", "_ts"]
    until(lambda: _is_the_join(livejoin), "the join of set a", START_S)
    options = [f"--{one}-topic={one}_b" for one in ("orders", *LOOKUPS)]
    swapped = demo.command("send", *options)
    assert swapped.stdout.startswith("live: generation 2"), swapped.stderr
    until(lambda: final.to_arrow()["customerId"][0].as_py().startswith("b"), "set b", START_S)
    until(lambda: _is_the_join(livejoin), "the join of set b", START_S)
    assert demo.command("rollback").returncode == 0
    until(lambda: final.to_arrow()["customerId"][0].as_py().startswith("a"), "set a", START_S)
    until(lambda: _is_the_join(livejoin), "the join of set a again", START_S)


def test_types_from_json_to_python(demo: Demo, livejoin: client.Connection) -> None:
    row = livejoin.table("orders_ui").to_arrow().to_pylist()[0]
    assert isinstance(row["total"], decimal.Decimal)
    assert row["total"].as_tuple().exponent == -2
    assert row["at"].tzinfo is not None
    printed = demo.command("show", "orders_ui", "--limit", "1", "--output", "json")
    (shown,) = json.loads(printed.stdout)["rows"]
    assert decimal.Decimal(shown["total"]) > 0
    assert shown["at"].endswith("Z")


def test_a_reject_names_the_field_and_another_join_is_refused(
    demo: Demo, livejoin: client.Connection
) -> None:
    rejects = livejoin.table("rejects_ui")
    until(lambda: rejects.to_arrow().num_rows > 0, "a malformed record", START_S)
    assert {row["source"] for row in rejects.to_arrow().to_pylist()} <= {"orders", *LOOKUPS}
    refused = demo.command("send", "--join", "inner")
    assert refused.returncode == 1
    assert "inner takes exactly two sources, and there are 3" in refused.stderr
