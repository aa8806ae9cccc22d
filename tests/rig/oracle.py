"""The oracle: a plain computation of the rows and rejects that input records must give.

Shares no code with livejoin.
"""

import decimal
import functools
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

FIELDS = {
    "users": {"userId": "string", "name": "string", "email": "string", "age": "int64"},
    "accounts": {"userId": "string", "accountType": "string", "balance": "double"},
}
Row = dict[str, Any]
Position = tuple[int, int]
Version = tuple[int, Position, Row]  # of an account; the highest is the newest


@dataclass(frozen=True)
class Sent:
    """An input record as acknowledged by the broker."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class Rejected(Exception):
    """The reason why a record gives no row."""


class Number(str):
    """A JSON number as written."""

    __slots__ = ()


def read_object(value: bytes) -> dict[str, Any]:
    """Return a record's JSON object, with numbers as they are spelt, or raise Rejected."""
    if len(value) > 1 << 20:
        raise Rejected(f"value: larger than 1 MiB, {len(value)} bytes")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Rejected("value: not UTF-8") from None
    if not text.strip(" \t\r\n"):
        raise Rejected("value: empty")
    try:
        read = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_constant)
        json.dumps(read, ensure_ascii=False).encode()  # no lone surrogate
    except (ValueError, RecursionError):
        raise Rejected("value: not valid JSON") from None
    if not isinstance(read, dict):
        raise Rejected("value: expected an object")
    return read


def parse(source: str, value: bytes) -> Row:
    """Return a row, or raise Rejected."""
    read = read_object(value)
    row, wrong = {}, []
    for name, kind in FIELDS[source].items():
        try:
            row[name] = convert(read.get(name), kind)
        except Rejected as error:
            wrong.append(f"{name}: expected {kind}, got {error}")
    if wrong:
        raise Rejected("; ".join(wrong))
    return row


def _number(text: str) -> Number:
    if len(text) > 1000:
        raise ValueError(text)
    return Number(text)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def convert(value: Any, kind: str) -> Any:
    """Return a JSON value as string, int64 or double, or raise Rejected with its text."""
    if value is None:
        return None
    if kind == "string":
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return str(value)
    elif isinstance(value, str) and re.fullmatch(
        r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", value
    ):
        if kind == "double" and math.isfinite(float(value)):
            return float(value)
        if kind == "int64":
            with decimal.localcontext(prec=2000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
                exact = decimal.Decimal(value)
                small = exact.adjusted() < 30
                if small and exact == exact.to_integral_value() and -(2**63) <= exact < 2**63:
                    return int(exact)
    raise Rejected(value if isinstance(value, Number) else shown(value))


def shown(value: Any) -> str:
    """Return a JSON value as the reason of a reject shows it."""
    return _text(value)[:80]


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Expected:
    """The expected tables, rows by id, and the number of tombstones."""

    tables: Mapping[str, Mapping[str, Row]]
    tombstones: Mapping[str, int]


class Difference(NamedTuple):
    """A row that differs from the expected one; None if missing or not expected."""

    table: str
    id: str
    found: Row | None
    expected: Row | None


def differences(found: Mapping[str, Mapping[str, Row]], truth: Expected) -> list[Difference]:
    """Return the differing rows, in the columns known to the oracle."""
    wrong = []
    for table, rows in truth.tables.items():
        found_rows = found[table]
        for row_id in {**rows, **found_rows}:
            row, expected_row = found_rows.get(row_id), rows.get(row_id)
            if (
                row is None
                or expected_row is None
                or comparable(row, expected_row) != comparable(expected_row, expected_row)
            ):
                wrong.append(Difference(table, row_id, row, expected_row))
    return wrong


def lost(wrong: Iterable[Difference]) -> int:
    """Return the number of missing rows."""
    return sum(one.found is None for one in wrong)


def wrong_cells(wrong: Iterable[Difference]) -> int:
    """Return the number of wrong cells; all of a row that is not expected."""
    count = 0
    for _, _, row, expected_row in wrong:
        if row is not None and expected_row is not None:
            row_cells, expected_cells = (
                comparable(row, expected_row),
                comparable(expected_row, expected_row),
            )
            count += sum(row_cells[name] != expected_cells[name] for name in expected_cells)
        elif row is not None:
            count += len(row)
    return count


@functools.lru_cache(maxsize=1 << 18)
def parse_cached(source: str, value: bytes) -> Row:
    """Cached: the same records are compared many times."""
    return parse(source, value)


def comparable(row: Row, expected_row: Row) -> Row:
    """Return the cells of a row in the columns of the expected one, in the oracle's form."""
    cells = {name: row.get(name) for name in expected_row}
    if "_ts" in cells:
        cells["_ts"] = milliseconds(cells["_ts"])
    if "reason" in cells:
        cells["reason"] = _plain_reason(str(cells["reason"]))
    return cells


def milliseconds(position: Any) -> Any:
    """Return a time of JSON or Arrow in milliseconds, as Kafka has it."""
    if isinstance(position, str):
        position = datetime.fromisoformat(position)
    return round(position.timestamp() * 1000) if isinstance(position, datetime) else position


def _plain_reason(reason: str) -> str:
    """Truncate long values; of an unreadable value only the kind is compared."""
    return reason.partition(", got ")[0] if reason.startswith("value") else reason[:60]


def expected(sent: Mapping[str, Iterable[Sent]], join: str = "left") -> Expected:
    """Return the tables that result from all of these records.

    `_ts` is the time of the newest record that contributed to a row, in milliseconds.
    """
    rows: dict[str, dict[Position, tuple[Row, int]]] = {"users": {}, "accounts": {}}
    rejects: dict[str, Row] = {}
    tombstones = {"users": 0, "accounts": 0}
    for source, records in sent.items():
        for record in records:
            position = (record.partition, record.offset)
            if record.value is None:
                tombstones[source] += 1
                continue
            try:
                rows[source][position] = (parse_cached(source, record.value), record.timestamp)
            except Rejected as error:
                rejects[f"{source}/{row_name(position)}"] = {
                    "source": source,
                    "partition": position[0],
                    "offset": position[1],
                    "reason": str(error),
                    "raw": record.value[:4096].decode(errors="backslashreplace"),
                    "_ts": record.timestamp,
                }
    users, accounts = rows["users"], rows["accounts"]
    return Expected(
        {
            "users_ui": {
                row_name(position): {**row, "_ts": ts} for position, (row, ts) in users.items()
            },
            "accounts_ui": {
                row_name(position): {**row, "_ts": ts} for position, (row, ts) in accounts.items()
            },
            "final_ui": _joined(users, accounts, join),
            "rejects_ui": rejects,
        },
        tombstones,
    )


def rows_of(source: str, records: Iterable[Sent]) -> dict[Position, tuple[Row, int]]:
    """Return the records that give rows, with their times."""
    rows = {}
    for record in records:
        if record.value is None:
            continue
        try:
            row = parse_cached(source, record.value)
        except Rejected:
            continue
        rows[record.partition, record.offset] = (row, record.timestamp)
    return rows


def _joined(
    users: Mapping[Position, tuple[Row, int]],
    accounts: Mapping[Position, tuple[Row, int]],
    join: str,
) -> dict[str, Row]:
    by_user: dict[str, list[Version]] = {}
    for position, (row, ts) in accounts.items():
        if row["userId"] is not None:
            by_user.setdefault(row["userId"], []).append((ts, position, row))
    final = {}
    for position, (user, own) in users.items():
        row_cells = by_user.get(user["userId"], []) if user["userId"] is not None else []
        if join == "left" or (join == "left_outer" and not row_cells):
            newest = max(row_cells, key=lambda one: one[:2], default=no_account(own))
            final[row_name(position)] = joined(user, own, newest)
            continue
        for account in row_cells:
            final[f"{row_name(position)}+{row_name(account[1])}"] = joined(user, own, account)
    return final


def joined(user: Row, ts: int, account: Version) -> Row:
    """Return a row of `final_ui`."""
    of_account = {name: account[2][name] for name in ("accountType", "balance")}
    return {**user, **of_account, "_ts": max(ts, account[0])}


def no_account(ts: int) -> Version:
    """The null account that a user without accounts is joined with."""
    return ts, (-1, -1), {"accountType": None, "balance": None}


def row_name(position: Position) -> str:
    """Return the `_id` of the row of a record."""
    return f"{position[0]}-{position[1]}"
