"""Tables and columns against the contract."""

import json

import pytest

from livejoin.core import spec

COLUMNS = {
    "users_ui": "userId name email age _id _ts",
    "accounts_ui": "userId accountType balance _id _ts",
    "final_ui": "userId name email age accountType balance _id _ts",
    "rejects_ui": "source topic partition offset ts reason raw _id _ts",
    "orchestrator_status": (
        "usersTopic accountsTopic joinType lastApplied generation state progress message _id"
    ),
    "orchestrator_logs": "ts level msg event generation control _id",
    "control_raw": (
        "usersTopic accountsTopic joinType partition offset ts by outcome reason raw _id"
    ),
    "generations": (
        "generation usersTopic accountsTopic joinType state by requestedAt liveAt retiredAt"
        " catchUpSeconds read rejected tombstones rows message sources _id"
    ),
}
TYPES = {
    "age": "int64",
    "balance": "double",
    "partition": "int64",
    "offset": "int64",
    "generation": "int64",
    "progress": "int64",
    "read": "int64",
    "rejected": "int64",
    "tombstones": "int64",
    "rows": "int64",
    "catchUpSeconds": "double",
    "requestedAt": "timestamp",
    "liveAt": "timestamp",
    "retiredAt": "timestamp",
    "ts": "timestamp",
    "_ts": "timestamp",
}


def test_the_tables_are_those_of_the_contract() -> None:
    assert list(spec.DEFAULT.tables) == list(COLUMNS)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_order_of_the_contract(name: str) -> None:
    assert [c.name for c in spec.DEFAULT.tables[name].columns] == COLUMNS[name].split()


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_types_of_the_contract(name: str) -> None:
    for column in spec.DEFAULT.tables[name].columns:
        assert column.type == TYPES.get(column.name, "string"), column.name


def test_only_data_tables_have_the_timestamp_of_their_input() -> None:
    assert [name for name, table in spec.DEFAULT.tables.items() if table.data] == [
        name for name, columns in COLUMNS.items() if "_ts" in columns.split()
    ]


def test_the_default_join_is_left() -> None:
    assert spec.DEFAULT.choice("people", "money").join == "left"


def test_a_choice_as_text() -> None:
    assert str(spec.DEFAULT.choice("people", "money", join="inner")) == "people inner money"


# Names that clash: with the driver's key, with the driver, and with an earlier lookup.
ORDERS = spec.JoinSpec(
    (
        spec.Source(
            "orders",
            (
                spec.Column("orderId", "string"),
                spec.Column("customerId", "int64"),
                spec.Column("status", "string"),
                spec.Column("city", "string", "$.address.city"),
            ),
            "customerId",
        ),
        spec.Source(
            "customers",
            (spec.Column("id", "int64"), spec.Column("City", "string"), spec.Column("n", "string")),
            "id",
        ),
        spec.Source(
            "payments",
            (
                spec.Column("order", "int64"),
                spec.Column("status", "string"),
                spec.Column("customerId", "string"),
            ),
            "order",
        ),
    )
)


def test_the_join_has_the_key_then_the_fields_of_each_source() -> None:
    names = "customerId orderId status city customers_City n payments_status payments_customerId"
    assert [c.name for c in ORDERS.joined_columns] == names.split()
    assert ORDERS.joined_columns[0].type == "int64"
    assert [c.name for c in ORDERS.tables["payments_ui"].columns] == [
        *("order", "status", "customerId", "_id", "_ts")
    ]


def test_a_name_that_is_taken_twice_is_refused() -> None:
    taken = spec.Source("b", (spec.Column("k", "string"), spec.Column("x", "string")), "k")
    driver = spec.Source("a", (*taken.fields, spec.Column("b_x", "string")), "k")
    with pytest.raises(ValueError, match=r"sources\.b\.fields\.x: final_ui has columns x and b_x"):
        _ = spec.JoinSpec((driver, taken)).joined_names


def test_topic_columns_and_data_tables_follow_from_the_sources() -> None:
    columns = [c.name for c in ORDERS.tables[spec.STATUS].columns]
    assert columns[:4] == ["ordersTopic", "customersTopic", "paymentsTopic", "joinType"]
    assert ORDERS.data_tables == (
        *("orders_ui", "customers_ui", "payments_ui", spec.FINAL, spec.REJECTS),
    )
    choice = ORDERS.choice("o", "c", "p")
    assert str(choice) == "o left c, p"
    assert ORDERS.topic_cells(choice) == {
        "ordersTopic": "o",
        "customersTopic": "c",
        "paymentsTopic": "p",
        "joinType": "left",
    }


def test_a_topic_that_two_sources_read() -> None:
    assert ORDERS.choice("o", "c", "p").repeated_topic == ""
    assert ORDERS.choice("o", "c", "o").repeated_topic == "o"


@pytest.mark.parametrize("one", [spec.DEFAULT, ORDERS])
def test_a_spec_as_json(one: spec.JoinSpec) -> None:
    assert spec.JoinSpec.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_the_table_of_a_source_and_the_tables_of_operators() -> None:
    assert ORDERS.source_of_table["payments_ui"] == "payments"
    assert ORDERS.all_tables.keys() - ORDERS.tables.keys() == {spec.AUDIT}


def test_a_path_has_steps_and_is_what_reasons_show() -> None:
    nested = spec.Column("b", "decimal(12, 2)", "$.a[0].b")
    assert (nested.steps, nested.label, nested.digits) == (("a", 0, "b"), "$.a[0].b", (12, 2))
    flat = spec.Column("a.b", "int64")
    assert (flat.steps, flat.label, flat.digits) == (("a.b",), "a.b", None)


def test_several_lookups_have_a_version_each_and_are_joined_left() -> None:
    assert ORDERS.versioned_lookups == ("customers", "payments")
    assert ORDERS.joins == ("left",)
    assert spec.DEFAULT.versioned_lookups == ()
    assert spec.DEFAULT.joins == ("left", "inner", "left_outer")
