"""Tables and columns against the contract."""

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
    assert list(spec.TABLES) == list(COLUMNS)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_order_of_the_contract(name: str) -> None:
    assert [c.name for c in spec.TABLES[name].columns] == COLUMNS[name].split()


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_have_the_types_of_the_contract(name: str) -> None:
    for column in spec.TABLES[name].columns:
        assert column.type == TYPES.get(column.name, "string"), column.name


def test_only_data_tables_have_the_timestamp_of_their_input() -> None:
    assert [name for name, table in spec.TABLES.items() if table.data] == [
        name for name, columns in COLUMNS.items() if "_ts" in columns.split()
    ]


def test_topics_of_a_choice() -> None:
    choice = spec.Choice("people", "money", "inner")
    assert {source.name: choice.topic(source.name) for source in spec.SOURCES} == {
        "users": "people",
        "accounts": "money",
    }


def test_the_default_join_is_left() -> None:
    assert spec.Choice("people", "money").join == "left"


def test_a_choice_as_text() -> None:
    assert str(spec.Choice("people", "money", "inner")) == "people inner money"
