"""What is proposed for samples of records."""

import json
from typing import Any

import pytest

from livejoin.core.source_inference import MAX_FIELDS, InferredSource, infer_source
from livejoin.core.spec import Column

ORDER = {
    "orderId": "o1",
    "customerId": "c1",
    "total": 12.5,
    "items": 3,
    "paid": True,
    "address": {"city": "Paris", "geo": {"lat": 1.5}},
    "createdAt": "2026-01-31T12:00:00Z",
}


def inferred(*records: Any) -> InferredSource:
    return infer_source(json.dumps(record).encode() for record in records)


def columns(*records: Any) -> list[Column]:
    return [field.column for field in inferred(*records).fields]


def test_fields_have_types_and_nested_ones_paths() -> None:
    found = inferred(ORDER, ORDER)
    assert [field.column for field in found.fields] == [
        Column("orderId", "string"),
        Column("customerId", "string"),
        Column("total", "double"),
        Column("items", "int64"),
        Column("paid", "boolean"),
        Column("city", "string", "$.address.city"),
        Column("lat", "double", "$.address.geo.lat"),
        Column("createdAt", "timestamp"),
    ]
    assert (found.samples, found.objects, found.fits, found.share) == (2, 2, 2, 1.0)
    assert found.key == "orderId"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "int64"),
        ([1, 2.5], "double"),
        ([1, "2"] * 10, "string"),
        (["1", "2"], "string"),
        ([2**63], "double"),
        ([True, False], "boolean"),
        ([True, 1], "string"),
        (["2026-01-31T12:00:00+01:00"], "timestamp"),
        (["2026-01-31"], "string"),
        (["2026-01-31T12:00:00"], "string"),
        (["2026-13-31T12:00:00Z"], "string"),
        (["x"] + [1] * 30, "int64"),
        ([["a"]], "string"),
    ],
)
def test_types(values: list[Any], kind: str) -> None:
    assert columns(*({"x": value} for value in values)) == [Column("x", kind)]


def test_milliseconds_are_a_time_where_the_name_says_so() -> None:
    assert columns({"at": 1_700_000_000_000, "n": 1_700_000_000_000}) == [
        Column("at", "timestamp"),
        Column("n", "int64"),
    ]
    assert columns({"updatedAt": 7}) == [Column("updatedAt", "int64")]


def test_what_does_not_fit_is_counted_with_an_example() -> None:
    found = inferred(*[{"n": 1}] * 30, {"n": "abc"}, [1], "text", {})
    (field,) = found.fields
    assert (field.present, field.misfits, field.example) == (31, 1, "'abc'")
    assert (found.samples, found.objects, found.fits) == (34, 32, 31)


def test_nulls_and_broken_records() -> None:
    assert columns({"a": None, "b": []}) == [Column("b", "string")]
    assert columns({"a": {}}) == []
    found = infer_source([b"{", b"\xff", b""])
    assert (found.samples, found.objects, found.fits, found.share) == (3, 0, 0, 0.0)
    assert infer_source([]).share == 0.0


def test_names_that_clash_have_their_path() -> None:
    assert columns({"a": {"id": "x"}, "b": {"ID": "y"}, "1": "z"}) == [
        Column("a_id", "string", "$.a.id"),
        Column("b_ID", "string", "$.b.ID"),
    ]
    names = [column.name for column in columns({"a_b": 1, "a": {"b": 2}, "x": {"b": 3}})]
    assert names == ["a_b", "a_b2", "x_b"]
    assert [column.name for column in columns({"_hidden": 1})] == ["f__hidden"]


def test_what_cannot_be_a_field_is_named() -> None:
    found = inferred(
        {"my name": 1, "a": 1, "b": {"c": 1}}, {"a": 2, "B": 1}, {"a": {"x": 1}, "b": {"c": 1}}
    )
    assert found.skipped == ("$.my name", "$.B", "$.a.x")
    assert [field.column.name for field in found.fields] == ["a", "c"]
    assert (found.fields[0].misfits, found.fits) == (1, 2)


def test_fields_and_depth_are_bounded() -> None:
    assert len(columns({f"f{number}": 1 for number in range(300)})) == MAX_FIELDS
    deep: dict[str, Any] = {"x": 1}
    for _ in range(7):
        deep = {"d": deep}
    (field,) = columns(deep)
    assert field.path.count(".") == 8
    assert columns({"d": deep}) == []


def test_without_a_likely_key_there_is_none() -> None:
    assert inferred({"name": "Ada", "n": 1.5}).key == ""
    assert inferred({"id": 1.5}).key == ""
    assert inferred({"someId": 1}, {"id": 2}, {"id": 3}).key == "id"
