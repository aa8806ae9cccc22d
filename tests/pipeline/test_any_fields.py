"""Records of any spec become the row or reject of the general oracle: types, paths, names."""

import json
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row

from livejoin.core.spec import Column, JoinSpec, Source
from livejoin.pipeline import parse
from livejoin.pipeline.spark_driver import SparkDriver
from rig import general_oracle, oracle
from rig.specs import BROKEN, HOSTILE, KEYS, TYPES, VALID, random_spec, random_value

SEED = 22
SPECS = 4
CELLS = tuple(dict.fromkeys((*HOSTILE, *(t for texts in VALID.values() for t in texts))))
WHERE = {
    "a member": ("", "{%s}"),
    "a nested member": ("$.o.p.%s", '{"o": {"p": {%s}, "q": [{"z": "}"}]}}'),
    "a member of an element": ("$.l[1].%s", '{"l": [null, {%s}]}'),
}


def spec_of(*sources: tuple[str, str, list[Column]]) -> JoinSpec:
    return JoinSpec(tuple(Source(name, tuple(fields), key) for name, key, fields in sources))


def frame(session: SparkDriver, records: list[tuple[str, bytes | None]]) -> DataFrame:
    rows = [(i, source, value) for i, (source, value) in enumerate(records)]
    return session.spark().createDataFrame(rows, "i int, source string, value binary")


def parsed(
    session: SparkDriver, joined: JoinSpec, records: list[tuple[str, bytes | None]]
) -> list[Row]:
    return parse.parse_records(frame(session, records), joined).orderBy("i").collect()


def check(session: SparkDriver, joined: JoinSpec, records: list[tuple[str, bytes | None]]) -> None:
    spec = joined.to_json()
    sources = {source["name"]: source for source in spec["sources"]}
    names = general_oracle.column_names(spec["sources"])
    for (name, value), got in zip(records, parsed(session, joined, records), strict=True):
        expected: dict[str, Any] | None = None
        reason = None
        if value is not None:
            try:
                row = general_oracle.parse(sources[name], value)
                expected = {names[name, own]: c for own, c in row.items() if c is not None}
            except oracle.Rejected as error:
                reason = str(error)
        found = got.row and {c: v for c, v in got.row.asDict().items() if v is not None}
        what = f"seed {SEED}, {sources[name]}, {value!r}: {got.reason}"
        assert found == expected, what
        assert _types(found) == _types(expected), what  # 1 is not true
        if reason is None or reason.startswith("value"):
            assert (got.reason or "").startswith((reason or "").split(", got")[0]), what
        else:
            assert _plain(got.reason) == _plain(reason), what


def _types(row: dict[str, Any] | None) -> dict[str, type]:
    return {name: type(cell) for name, cell in (row or {}).items()}


def _plain(reason: str) -> list[str]:
    """The fields that a reason names; what it has got may be spelt differently."""
    return [part.partition(", got ")[0] for part in reason.split("; ") if ": expected " in part]


@pytest.mark.parametrize("where", WHERE)
def test_every_cell_of_every_type(session: SparkDriver, where: str) -> None:
    path, text = WHERE[where]
    fields = [Column(f"f{i}", kind, path % f"f{i}" if path else "") for i, kind in enumerate(TYPES)]
    joined = spec_of(
        ("one", "k", [Column("k", "string"), *fields]), ("two", "k", [Column("k", "string")])
    )
    records: list[tuple[str, bytes | None]] = [
        ("one", (text % f'"f{i}": {cell}').encode()) for i in range(len(TYPES)) for cell in CELLS
    ]
    check(session, joined, records)


def test_elements_of_arrays(session: SparkDriver) -> None:
    kinds = [Column(f"f{i}", kind, f"$.l{i}[1]") for i, kind in enumerate(TYPES)]
    joined = spec_of(
        ("one", "k", [Column("k", "int64", "$.keys[0][1]"), *kinds]),
        ("two", "k", [Column("k", "int64")]),
    )
    arrays = [f"[{other}, {cell}]" for other in ("null", '"x"', "{}") for cell in CELLS]
    records: list[tuple[str, bytes | None]] = [
        ("one", f'{{"keys": [[0, {n % 3}]], "l{n % len(TYPES)}": {array}}}'.encode())
        for n, array in enumerate(arrays * 3)
    ]
    check(session, joined, records)


def test_what_is_not_there_is_null(session: SparkDriver) -> None:
    joined = spec_of(
        ("one", "k", [Column("k", "string"), Column("city", "string", "$.address.city")]),
        ("two", "k", [Column("k", "string")]),
    )
    values = ("null", "{}", '"x"', "1", "[]", '[{"city": "y"}]', '{"City": "y"}', '{"city": null}')
    check(session, joined, [("one", f'{{"address": {value}}}'.encode()) for value in values])


def test_a_reason_names_the_path(session: SparkDriver) -> None:
    city = Column("city", "string", "$.address.city")
    joined = spec_of(
        ("one", "k", [Column("k", "string"), city, Column("at", "timestamp")]),
        ("two", "k", [Column("k", "string")]),
    )
    record = b'{"address": {"city": {"name": "x"}}, "at": "2024-02-29"}'
    (got,) = parsed(session, joined, [("one", record)])
    assert got.reason == (
        '$.address.city: expected string, got {"name":"x"};'
        ' at: expected timestamp, got "2024-02-29"'
    )


def test_one_name_with_two_types(session: SparkDriver) -> None:
    """Also of names that differ by case only, and of a key with another name in each source."""
    joined = spec_of(
        ("one", "id", [Column("id", "int64"), Column("status", "string")]),
        ("two", "Key", [Column("Key", "int64", "$.ID"), Column("status", "int64")]),
        ("six", "k", [Column("k", "int64", "$.status.id"), Column("Status", "boolean", "$.Id")]),
    )
    records: list[tuple[str, bytes | None]] = [
        ("one", b'{"id": 1, "ID": 2, "Id": 3, "status": "new"}'),
        ("one", b'{"id": 1, "status": 7}'),
        ("two", b'{"id": 1, "ID": 2, "Id": 3, "status": "7"}'),
        ("two", b'{"ID": 2, "status": 7}'),
        ("two", b'{"ID": 2, "status": "new"}'),
        ("six", b'{"status": {"id": 4}, "Id": true, "id": 9}'),
        ("six", b'{"status": 4, "Id": 4}'),
    ]
    check(session, joined, records)
    assert parsed(session, joined, records)[3].row.two_status == 7


def test_a_number_keeps_its_spelling_where_the_name_is_escaped(session: SparkDriver) -> None:
    names = ("größe", "a&b", "𝄞", 'quo"te')
    fields = [Column(name, "string") for name in names]
    joined = spec_of(
        ("one", "k", [Column("k", "string"), *fields]), ("two", "k", [Column("k", "string")])
    )
    plain = [json.dumps(name, ensure_ascii=False) for name in names]
    escaped = [json.dumps(name).replace("&", "\\u0026").replace("00f6", "00F6") for name in names]
    texts = (f"{{{name}: 1.50}}" for name in (*plain, *escaped))
    check(session, joined, [("one", text.encode()) for text in texts])


@pytest.mark.parametrize("number", range(SPECS))
def test_random_specs(session: SparkDriver, number: int) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED + number)
    joined = random_spec(dice, 2 + number % 4)
    sources = joined.to_json()["sources"]
    chosen = [dice.choice(sources) for _ in range(800)]
    check(session, joined, [(s["name"], random_value(dice, s)) for s in chosen])


def test_usual_records_need_no_strict_parser(session: SparkDriver) -> None:
    orders = [
        Column("orderId", "string"), Column("customerId", "string"),
        Column("total", "decimal(12,2)"), Column("city", "string", "$.address.city"),
        Column("sku", "string", "$.items[0].sku"), Column("at", "timestamp"),
        Column("paid", "boolean"),
    ]  # fmt: skip
    joined = spec_of(
        ("orders", "customerId", orders),
        ("customers", "id", [Column("id", "string"), Column("city", "int64")]),
    )
    order = {"orderId": "o1", "customerId": "c1", "total": 12.5, "address": {"city": "Bern"},
             "items": [{"sku": "a", "tags": ["x"]}, {"sku": "b"}], "paid": True}  # fmt: skip
    records: list[tuple[str, bytes | None]] = [
        ("orders", json.dumps({**order, "total": total, "at": at}).encode())
        for total in (12, 12.5, "12.50", -3, None)
        for at in (1_700_000_000_000, "2024-02-29T10:00:00Z", "2024-02-29T10:00:00.5+02:00", None)
    ]
    records.append(("customers", b'{"id": "c1", "city": 5}'))
    found = frame(session, records)
    for name, column in parse._stages(session.spark(), joined, 1 << 20):
        found = found.withColumn(name, column)
    assert [row._sure for row in found.select("_sure").collect()] == [True] * len(records)
    check(session, joined, records)


@pytest.mark.parametrize("key", KEYS)
def test_broken_values_of_a_nested_spec(session: SparkDriver, key: str) -> None:
    joined = spec_of(
        ("one", "k", [Column("k", key, "$.o.k"), Column("a", "int64", "$.o.a")]),
        ("two", "k", [Column("k", key)]),
    )
    check(session, joined, [("one", value) for value in BROKEN])
