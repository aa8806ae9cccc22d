"""Every value, also random ones, becomes the row or reject of the oracle."""

import json
import random
from typing import Any

import pytest
from pyspark.sql import Row

from livejoin.core import spec
from livejoin.pipeline import parse
from livejoin.pipeline.spark_driver import SparkDriver
from rig import oracle

SEED = 7
SOURCES = {source.name: source for source in spec.DEFAULT.sources}
NUMBERS = (
    *("0", "-0", "30", "30.0", "30.5", "3e1", "3E+1", "300e-1", "3.05e1", "1e18", "1e19", "1e-400"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"),
    *("9223372036854775807.0", "1.00000000000000000001e0", "9007199254740993", "1e999", "-1e999"),
    *("0.0000", "0e5", "-0.0", "12345678901234567890.12", "1" * 50, "1" * 1001, "0." + "3" * 40),
)
CELLS = (
    *NUMBERS,
    *(f'"{number}"' for number in NUMBERS),
    *(
        '"abc"',
        '""',
        '" 30"',
        '"30\\n"',
        '"+30"',
        '"30 "',
        '"0x1F"',
        '"NaN"',
        '"1e"',
        '"٣"',
        '"\\u0000"',
    ),
    *(
        "true",
        "false",
        "null",
        "{}",
        "[]",
        '{"userId": 5}',
        "[1, 2]",
        '"]"',
        '"}"',
        '"\\"age\\": 5"',
    ),
    *("NaN", "Infinity", "+1", "01", ".5", "1.", "'x'", "tru", '"\\x"', '"\t"', ""),
)
WHOLE = (
    *(
        b"",
        b"  \n",
        b"null",
        b"true",
        b"1",
        b'"x"',
        b"[]",
        b"[{}]",
        b"{}",
        b" {} ",
        b"\xef\xbb\xbf{}",
    ),
    *(b"{", b"}", b"{}}", b"{}]", b"{}] ", b"{},{}", b"{},null", b"{} {}", b"{}x", b"{}//", b"{},"),
    *(
        b'{"userId": "]"}]',
        b'{"userId": "]"}',
        b'{"a": [1, {"b": []}]}',
        b'{"a": 1}]}',
        b'{"a": 1]',
    ),
    *(b"\xff", b'{"name": "\xc3"}', b'{"name": "\xed\xa0\x80"}', b'{"a":' * 5000, b"[" * 100_000),
    *(b'{"a":' * 300 + b"1" + b"}" * 300, b'{"userId":' * 300 + b"1" + b"}" * 300, b"9" * 100_000),
    *(
        b'{"userId": "' + b"y" * ((1 << 20) - 14) + b'"}',
        b'{"userId": "' + b"y" * (1 << 20) + b'"}',
    ),
    *(b'{"userId": 1.50}', b'{"userId": 1e3, "userId": 2}', b'{"userId": 2, "userId": 1E3}'),
)


def parsed(session: SparkDriver, source: str, values: list[bytes]) -> list[Row]:
    rows = [(i, source, value) for i, value in enumerate(values)]
    frame = session.spark().createDataFrame(rows, "i int, source string, value binary")
    return parse.parse_records(frame, spec.DEFAULT).orderBy("i").collect()


def truth(source: str, value: bytes) -> tuple[dict[str, Any] | None, str | None]:
    try:
        return oracle.parse(source, value), None
    except oracle.Rejected as error:
        return None, str(error)


def check(session: SparkDriver, source: str, values: list[bytes]) -> None:
    for value, got in zip(values, parsed(session, source, values), strict=True):
        row, reason = truth(source, value)
        found = {name: got.row[name] for name in oracle.FIELDS[source]} if got.row else None
        assert found == row, value[:200]
        if reason is None:
            assert got.reason is None
        else:
            prefix = reason if reason.startswith("value") else reason.split(", got")[0]
            assert got.reason.startswith(prefix), value[:200]


@pytest.mark.parametrize("source", SOURCES)
def test_every_cell_in_every_field(session: SparkDriver, source: str) -> None:
    fields = [column.name for column in SOURCES[source].fields]
    values = [f'{{"{field}": {cell}}}'.encode() for field in fields for cell in CELLS]
    check(session, source, values)


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_value(session: SparkDriver, source: str) -> None:
    check(session, source, list(WHOLE))


@pytest.mark.parametrize("source", SOURCES)
def test_random_objects_intact_and_damaged(session: SparkDriver, source: str) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    names = [column.name for column in spec.DEFAULT.joined_columns] + ["other", "userid"]
    values = []
    for _ in range(3000):
        pairs = [(dice.choice(names), dice.choice(CELLS[:-11])) for _ in range(dice.randrange(6))]
        text = "{" + ",".join(f"{json.dumps(name)}:{cell}" for name, cell in pairs) + "}"
        data = bytearray(text.encode())
        if dice.random() < 0.4:
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(2)] = dice.randbytes(dice.randrange(3))
        values.append(bytes(data))
    check(session, source, values)


def test_a_value_is_parsed_once(session: SparkDriver) -> None:
    frame = session.spark().createDataFrame([("users", b"{}")], "source string, value binary")
    plan = (
        parse.parse_records(frame, spec.DEFAULT)
        .select("row.userId", "row.age", "reason")
        ._jdf.queryExecution()
    )
    executed = plan.executedPlan().toString()
    assert executed.count("from_json(") == 1
    assert executed.count("tryValidateUTF8String(") == 1


def test_a_tombstone_is_neither_row_nor_reject(session: SparkDriver) -> None:
    frame = session.spark().createDataFrame([("users", None)], "source string, value binary")
    (got,) = parse.parse_records(frame, spec.DEFAULT).collect()
    assert (got.row, got.reason) == (None, None)


def test_a_smaller_limit_is_named_in_the_reject(session: SparkDriver) -> None:
    fits = b'{"userId": "' + b"y" * ((504 << 10) - 14) + b'"}'
    rows = [(0, "users", fits), (1, "users", fits + b" ")]
    frame = session.spark().createDataFrame(rows, "i int, source string, value binary")
    within, over = parse.parse_records(frame, spec.DEFAULT, 504 << 10).orderBy("i").collect()
    assert (within.row is not None, within.reason) == (True, None)
    assert over.reason == f"value: larger than 504 KiB, {len(fits) + 1} bytes"


def test_a_reason_shows_the_truncated_value(session: SparkDriver) -> None:
    (got,) = parsed(session, "users", [b'{"age": "' + b"x" * 500 + b'"}'])
    assert got.reason == f'age: expected int64, got "{"x" * 79}'


def test_deep_nesting_does_not_overflow_the_stack(session: SparkDriver) -> None:
    # the oracle's own parser does not go this deep
    deep = b"1".join((b'{"x": ' + b"[" * 997, b"]" * 997 + b"}"))
    (ignored, wrong) = parsed(session, "users", [deep, deep.replace(b'"x"', b'"age"')])
    assert ignored.row.asDict() == dict.fromkeys(
        column.name for column in spec.DEFAULT.joined_columns
    )
    assert wrong.reason.startswith("age: expected int64, got [[[[")
