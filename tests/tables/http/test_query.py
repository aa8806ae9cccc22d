"""Columns, filter, sort, limit and offset, against a naive implementation over dictionaries."""

import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from livejoin.errors import RequestError
from livejoin.tables.http import filters, query
from livejoin.tables.http.comparisons import FilterBatch, Predicate

LOWEST, HIGHEST = -(2**63), 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("age", pa.int64()),
        ("balance", pa.float64()),
        ("ts", pa.timestamp("ms", "UTC")),
        ("paid", pa.bool_()),
        ("_id", pa.string()),
    ]
)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Row = dict[str, Any]


def table(rows: list[Row]) -> pa.Table:
    whole = [{**row, "_id": str(i)} for i, row in enumerate(rows)]
    # in several batches, as a store may hold them
    parts = [pa.RecordBatch.from_pylist(whole[i : i + 3], SCHEMA) for i in range(0, len(whole), 3)]
    return pa.Table.from_batches(parts, SCHEMA)


def run_query(rows: pa.Table, **parameters: str) -> tuple[int, list[Row]]:
    """Return the total and the rows of a query."""
    found = query.run(query.parse(parameters, rows.schema), rows)
    given_rows = [row for batch in found.batches() for row in batch.to_pylist()]
    assert len(found) == len(given_rows)
    return found.total, given_rows


# --- generated rows, and filters with their meaning

# Letters whose lower case is one letter in every Unicode version.
TEXTS = st.text(st.sampled_from("aAbBäÄ€😀 \"'\\=+-\n\0"), max_size=4)
TIMES = st.integers(-(10**12), 4 * 10**12).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
NUMBERS = st.integers(LOWEST, HIGHEST) | st.integers(-3, 3) | st.sampled_from([LOWEST, HIGHEST])
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 0.1, 1.0])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.none() | TEXTS,
            "age": st.none() | NUMBERS,
            "balance": st.none() | DOUBLES,
            "ts": st.none() | TIMES,
            "paid": st.none() | st.booleans(),
        }
    ),
    max_size=12,
)


@dataclass(frozen=True)
class GeneratedFilter:
    """A filter's text, and the equivalent predicate on a row."""

    text: str
    holds: Callable[[Row], bool]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _single(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _test(column: str, sign: str, text: str, value: Any) -> GeneratedFilter:
    def holds(row: Row) -> bool:
        cell = row[column]
        return cell is not None and COMPARE[sign](cell, value)

    return GeneratedFilter(f"{column}{sign}{text}", holds)


def _contains(part: str) -> GeneratedFilter:
    def holds(row: Row) -> bool:
        return row["name"] is not None and part.lower() in row["name"].lower()

    return GeneratedFilter(f"name ~ {_quoted(part)}", holds)


SIGNS = st.sampled_from(list(COMPARE))
DECIMALS = st.integers(-(10**20), 10**20).map(lambda n: f"{n}e-1") | st.sampled_from(
    ["2.5", "-0.1", ".5", "1e3", "+3", "9223372036854775807.5", "-9223372036854775808.5", "1E300"]
)
TESTS = st.one_of(
    st.builds(lambda s, v: _test("name", s, _quoted(v), v), SIGNS, TEXTS),
    st.builds(lambda s, v: _test("name", s, _single(v), v), SIGNS, TEXTS),
    st.builds(lambda s, v: _test("age", s, str(v), v), SIGNS, NUMBERS),
    st.builds(lambda s, v: _test("age", s, v, Fraction(v)), SIGNS, DECIMALS),
    st.builds(lambda s, v: _test("balance", s, repr(v), v), SIGNS, DOUBLES),
    st.builds(lambda s, v: _test("ts", s, _iso(v), v), SIGNS, TIMES),
    st.builds(lambda s, v: _test("ts", s, _quoted(_iso(v)), v), SIGNS, TIMES),
    st.builds(
        lambda s, v: _test("paid", s, str(v).lower(), v),
        st.sampled_from(["=", "!="]),
        st.booleans(),
    ),
    st.builds(_contains, TEXTS),
    st.sampled_from(SCHEMA.names[:-1]).map(
        lambda name: GeneratedFilter(f"{name} is null", lambda row: row[name] is None)
    ),
    st.sampled_from(SCHEMA.names[:-1]).map(
        lambda name: GeneratedFilter(f"{name} IS NOT NULL", lambda row: row[name] is not None)
    ),
)


def _either(parts: list[GeneratedFilter]) -> GeneratedFilter:
    text = " or ".join(part.text for part in parts)
    return GeneratedFilter(f"({text})", lambda row: any(part.holds(row) for part in parts))


def _both(parts: list[GeneratedFilter]) -> GeneratedFilter:
    text = " AND ".join(part.text for part in parts)
    return GeneratedFilter(f"({text})", lambda row: all(part.holds(row) for part in parts))


def _mixed(a: GeneratedFilter, b: GeneratedFilter, c: GeneratedFilter) -> GeneratedFilter:
    """Without parentheses: `and` binds tighter."""
    return GeneratedFilter(
        f"({a.text} or {b.text} and {c.text})",
        lambda row: a.holds(row) or (b.holds(row) and c.holds(row)),
    )


def _negated(part: GeneratedFilter) -> GeneratedFilter:
    return GeneratedFilter(f"not {part.text}", lambda row: not part.holds(row))


FILTERS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_either),
        st.lists(inner, min_size=1, max_size=3).map(_both),
        st.builds(_mixed, inner, inner, inner),
        inner.map(_negated),
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(ROWS, FILTERS)
def test_a_filter_matches_the_naive_predicate(rows: list[Row], generated: GeneratedFilter) -> None:
    whole = table(rows)
    expected = [row for row in whole.to_pylist() if generated.holds(row)]
    total, found = run_query(whole, filter=generated.text)
    assert [row["_id"] for row in found] == [row["_id"] for row in expected]
    assert total == len(expected)


EDGES = (LOWEST, LOWEST + 1, -1, 0, 1, 30, HIGHEST - 1, HIGHEST)
TIMES_AT = [EPOCH + timedelta(milliseconds=ms) for ms in (-1, 0, 1, 1_700_000_000_123)]
CELLS: dict[str, list[tuple[str, Any]]] = {
    "age": [
        (text, Fraction(text))
        for edge in EDGES
        for text in (
            str(edge - 1),
            f"{edge}",
            f"{edge}.0",
            f"{edge + 1}",
            f"{edge}.5",
            f"{edge}5e-1",
        )
    ],
    "balance": [(repr(v), v) for v in (-1e308, -0.1, -0.0, 0.0, 5e-324, 0.1, 0.3, 1e308)],
    "name": [(_quoted(v), v) for v in ("", "A", "a", "aa", "ä", "€", "😀", "a b")],
    "ts": [(_iso(v), v) for v in TIMES_AT],
    "paid": [("true", True), ("false", False)],
}


@pytest.mark.parametrize("sign", COMPARE)
@pytest.mark.parametrize("column", CELLS)
def test_every_comparison_is_exact_at_the_limits(column: str, sign: str) -> None:
    cells = [None, *(EDGES if column == "age" else [value for _, value in CELLS[column]])]
    whole = table([dict.fromkeys(SCHEMA.names, None) | {column: cell} for cell in cells])
    signs = ("=", "!=") if column == "paid" else (sign,)
    for one in signs:
        for text, value in CELLS[column]:
            generated = _test(column, one, text, value)
            expected = [row["_id"] for row in whole.to_pylist() if generated.holds(row)]
            assert [row["_id"] for row in run_query(whole, filter=generated.text)[1]] == expected, (
                generated.text
            )


ORDERS = st.lists(
    st.tuples(st.sampled_from(SCHEMA.names[:5]), st.booleans()),
    max_size=3,
    unique_by=lambda o: o[0],
)


def _sorted(rows: list[Row], order: list[tuple[str, bool]]) -> list[Row]:
    for column, down in reversed(order):
        there = [row for row in rows if row[column] is not None]
        there.sort(key=lambda row: row[column], reverse=down)
        rows = there + [row for row in rows if row[column] is None]
    return rows


@given(ROWS, ORDERS)
def test_rows_are_sorted_stably_with_nulls_last(
    rows: list[Row], order: list[tuple[str, bool]]
) -> None:
    whole = table(rows)
    sort = {"sort": ",".join(f"{'-' * down}{name}" for name, down in order)} if order else {}
    _, found = run_query(whole, **sort)
    assert [row["_id"] for row in found] == [
        row["_id"] for row in _sorted(whole.to_pylist(), order)
    ]


@given(
    ROWS,
    FILTERS,
    ORDERS,
    st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True),
    st.tuples(st.integers(0, 15) | st.just(HIGHEST), st.none() | st.integers(0, 15)),
)
def test_filter_sort_offset_limit_and_columns_work_together(
    rows: list[Row],
    generated: GeneratedFilter,
    order: list[tuple[str, bool]],
    columns: list[str],
    part: tuple[int, int | None],
) -> None:
    whole = table(rows)
    kept = [row for row in whole.to_pylist() if generated.holds(row)]
    offset, limit = part
    end = None if limit is None else offset + limit
    expected = [{name: row[name] for name in columns} for row in _sorted(kept, order)[offset:end]]
    more = {"sort": ",".join(f"{'-' * down}{name}" for name, down in order)} if order else {}
    more |= {} if limit is None else {"limit": str(limit)}
    total, found = run_query(
        whole, filter=generated.text, columns=", ".join(columns), offset=str(offset), **more
    )
    assert (total, found) == (len(kept), expected)


# --- invalid input

WORDS = "age name and or not is null true ( ) = != < ~ \" ' \\ 1 - . e 2026-01-31 T : Z € é % *"
PIECES = st.sampled_from([*WORDS.split(), " ", "\0", "\ud800"])
EMPTY = table([])


@settings(max_examples=600)
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60))
@example("(" * 4000)
@example("not " * 1000)
@example("age=" + "9" * 4000)
@example("age=1e" + "9" * 4000)
@example("age=1e999999")
@example('name="' + "\\" * 4000)
@example("ts=0001-01-01T00:00:00+23:59")
@example("ts='9999-12-31T23:59:59-23:59'")
def test_any_text_is_a_valid_filter_or_a_clear_error(text: str) -> None:
    found: Predicate | RequestError
    try:
        found = filters.compile_filter(text, SCHEMA)
    except RequestError as error:
        found = error
    if isinstance(found, RequestError):
        assert found.message.startswith("filter: ")
        assert len(str(found)) < 600
        json.dumps(str(found), ensure_ascii=False).encode()
    else:
        batch = pa.RecordBatch.from_pylist([dict.fromkeys(SCHEMA.names)], SCHEMA)
        assert found(FilterBatch(batch)).null_count == 0


def test_the_limits_of_a_filter_are_exact() -> None:
    one = "age=1"
    most = " or ".join([one] * filters.MAX_COMPARISONS)
    assert run_query(EMPTY, filter=most) == (0, [])
    _fails("more than 100 comparisons", filter=f"{most} or {one}")
    deepest = filters.MAX_DEPTH - 1
    assert run_query(EMPTY, filter=f"{'(' * deepest}{one}{')' * deepest}") == (0, [])
    _fails("nested more than 32 levels deep", filter=f"({'(' * deepest}{one}{')' * deepest})")
    blank = filters.MAX_BYTES - len(one)
    assert run_query(EMPTY, filter=" " * blank + one) == (0, [])
    _fails("larger than 4 KiB: 4097 bytes", filter=" " * blank + one + " ")


def _fails(message: str, **parameters: str) -> None:
    with pytest.raises(RequestError) as raised:
        query.parse(parameters, SCHEMA)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "filter: empty. Example: age>=30"),
        ("agee>1", 'there is no column "agee". Did you mean age?'),
        ("xyzzy>1", 'there is no column "xyzzy". Columns: name, age,'),
        ("Name='x'", 'there is no column "Name". Did you mean name?'),
        ("age", "expected one of = != < <= > >= ~ or is, got the end"),
        ("age 3", 'or is, got "3" at character 5'),
        ("age>", 'expected a value (quote text, like "Ada"), got the end'),
        ("name=Ada", 'like "Ada"), got "Ada" at character 6'),
        ("age=null", "cannot compare with null; write age is null"),
        ("age is 3", 'expected null or not null, got "3" at character 8'),
        ("age is not 3", 'expected null, got "3" at character 12'),
        ("30<age", 'expected a column, got "30" at character 1'),
        ("and", 'expected a column, got "and" at character 1'),
        ("age>1 age<3", 'expected and, or, or the end, got "age" at character 7'),
        ("(age>1", "expected and, or, or ), got the end"),
        ("age>1)", 'expected and, or, or the end, got ")" at character 6'),
        ("age='30'", 'expected int64 for age, got "30" at character 5. Write it like 30.'),
        ("balance=2026-01-31", "expected double for balance, got"),
        ("name=30", 'expected text for name, got "30" at character 6. Write it like "30".'),
        ("name<true", 'expected text for name, got "true"'),
        ("age~'3'", "~ searches text, but age is int64"),
        ("ts~'2026'", "~ searches text, but ts is a time"),
        ("ts>3", 'expected a time for ts, got "3" at character 4. Write it like 2026-01-31T12'),
        ("ts>2026-02-30", 'expected a time for ts, got "2026-02-30"'),
        ("ts>'2026-01-31T12:00:00.0001Z'", "expected a time for ts, got"),
        ("paid=1", 'expected bool for paid, got "1" at character 6. Write it like true.'),
        ("paid<true", "paid is boolean; compare it with = or !="),
        ("age=1e400000", '"1e400000" at character 5 is out of range'),
        ("age=1e4000000", "exponent e4000000 at character 5 is too large"),
        ("name='a", "unterminated text at character 6"),
        ("age>1; drop", 'unexpected ";" at character 6'),
    ],
)
def test_an_invalid_filter_gives_reason_and_position(text: str, message: str) -> None:
    _fails(message, filter=text)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"columns": "age,nme"}, 'columns: there is no column "nme". Did you mean name?'),
        ({"columns": ""}, 'columns: there is no column "". Columns: name, age'),
        ({"columns": "age,"}, 'columns: there is no column ""'),
        ({"columns": "age,name,age"}, "columns: age is listed twice"),
        ({"columns": "a" * 5000}, "columns: larger than 4 KiB"),
        ({"sort": "-ag"}, 'sort: there is no column "ag". Did you mean age?'),
        ({"sort": "age,-age"}, "sort: age is listed twice"),
        ({"sort": "--age"}, 'sort: there is no column "-age"'),
        ({"limit": "-1"}, 'limit: expected a whole number from 0 to 9223372036854775807, got "-1"'),
        ({"limit": "1.0"}, "limit: expected a whole number"),
        ({"limit": ""}, 'got ""'),
        ({"limit": "٣"}, "limit: expected a whole number"),
        ({"limit": "9" * 5000}, "limit: expected a whole number"),
        ({"offset": "9223372036854775808"}, "offset: expected a whole number"),
        ({"offset": "x"}, 'offset: expected a whole number from 0 to 9223372036854775807, got "x"'),
    ],
)
def test_an_invalid_parameter_gives_the_reason(parameters: dict[str, str], message: str) -> None:
    _fails(message, **parameters)


@pytest.mark.parametrize("text", ["+age", " age", "age"])
def test_a_plus_means_ascending_even_if_decoded_to_a_blank(text: str) -> None:
    rows = table([dict.fromkeys(SCHEMA.names, None) | {"age": age} for age in (2, 1)])
    assert [row["age"] for row in run_query(rows, sort=text)[1]] == [1, 2]


def test_unknown_and_repeated_parameters_are_refused() -> None:
    assert query.parse_parameters([("limit", "1"), ("sort", "a")]) == {"limit": "1", "sort": "a"}
    with pytest.raises(RequestError, match="limit is given twice"):
        query.parse_parameters([("limit", "1"), ("limit", "1")])
    with pytest.raises(RequestError, match="Did you mean columns"):
        query.parse_parameters([("column", "1")])
    with pytest.raises(RequestError, match="Known parameters: format, columns, filter"):
        query.parse_parameters([("zzz", "1")])


def test_large_rows_are_returned_in_small_batches() -> None:
    rows = [dict.fromkeys(SCHEMA.names, None) | {"name": "x" * 100_000} for _ in range(50)]
    found = query.run(query.parse({"sort": "age"}, SCHEMA), table(rows))
    sizes = [batch.num_rows for batch in found.batches()]
    assert sum(sizes) == 50
    assert max(sizes) * 100_000 <= 1 << 20


def test_a_slice_of_a_large_table_is_not_copied() -> None:
    whole = pa.table({"n": pa.array(range(100_000), pa.int64())})
    found = query.run(query.parse({"offset": "99999"}, whole.schema), whole)
    assert found.indices is None
    assert [batch.to_pylist() for batch in found.batches()] == [[{"n": 99_999}]]
