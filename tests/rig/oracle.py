"""The truth, computed plainly: which rows and rejects input records must give.

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
Version = tuple[int, Position, Row]  # of an account: the newest is the highest


@dataclass(frozen=True)
class Sent:
    """An input record as the broker acknowledged it."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class Rejected(Exception):
    """Why a record is no row."""


class _Number(str):
    """A JSON number, as it is spelt."""

    __slots__ = ()


def parse(source: str, value: bytes) -> Row:
    """A row, or Rejected."""
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
    except (ValueError, RecursionError):
        raise Rejected("value: not valid JSON") from None
    if not isinstance(read, dict):
        raise Rejected("value: expected an object")
    row, wrong = {}, []
    for name, kind in FIELDS[source].items():
        try:
            row[name] = _convert(read.get(name), kind)
        except Rejected as error:
            wrong.append(f"{name}: expected {kind}, got {error}")
    if wrong:
        raise Rejected("; ".join(wrong))
    return row


def _number(text: str) -> _Number:
    if len(text) > 1000:
        raise ValueError(text)
    return _Number(text)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _convert(value: Any, kind: str) -> Any:
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
    raise Rejected(value if isinstance(value, _Number) else _shown(value))


def _shown(value: Any) -> str:
    return _text(value)[:80]


def _text(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Expected:
    """All tables, rows by identity, and what could not be read."""

    tables: Mapping[str, Mapping[str, Row]]
    tombstones: Mapping[str, int]


class Difference(NamedTuple):
    """A row that is not what it should be; None where it is not there, or should not be."""

    table: str
    id: str
    found: Row | None
    expected: Row | None


def differences(found: Mapping[str, Mapping[str, Row]], truth: Expected) -> list[Difference]:
    """Where tables are not the true ones, in the columns that the oracle knows."""
    wrong = []
    for table, rows in truth.tables.items():
        there = found[table]
        for row_id in {**rows, **there}:
            row, its = there.get(row_id), rows.get(row_id)
            if row is None or its is None or known(row, its) != known(its, its):
                wrong.append(Difference(table, row_id, row, its))
    return wrong


def lost(wrong: Iterable[Difference]) -> int:
    """How many rows are missing."""
    return sum(one.found is None for one in wrong)


def wrong_cells(wrong: Iterable[Difference]) -> int:
    """How many cells are not what they should be; of a row too many, all."""
    count = 0
    for _, _, row, its in wrong:
        if row is not None and its is not None:
            mine, true = known(row, its), known(its, its)
            count += sum(mine[name] != true[name] for name in true)
        elif row is not None:
            count += len(row)
    return count


@functools.lru_cache(maxsize=1 << 18)
def parsed(source: str, value: bytes) -> Row:
    """Compared again and again, parsed once."""
    return parse(source, value)


def known(row: Row, its: Row) -> Row:
    """A row's cells in the columns of another one, as the oracle writes them."""
    cells = {name: row.get(name) for name in its}
    if "_ts" in cells:
        cells["_ts"] = milliseconds(cells["_ts"])
    if "reason" in cells:
        cells["reason"] = _plain_reason(str(cells["reason"]))
    return cells


def milliseconds(at: Any) -> Any:
    """A time as Kafka has it, of one as JSON or Arrow tell it."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else at


def _plain_reason(reason: str) -> str:
    """What was found is cut; of a value that is broken as a whole only the kind is known."""
    return reason.partition(", got ")[0] if reason.startswith("value") else reason[:60]


def expected(sent: Mapping[str, Iterable[Sent]], join: str = "left") -> Expected:
    """What the tables must show once all of these records have been read.

    `_ts` is the time of the newest record that shaped a row, in milliseconds.
    """
    rows: dict[str, dict[Position, tuple[Row, int]]] = {"users": {}, "accounts": {}}
    rejects: dict[str, Row] = {}
    tombstones = {"users": 0, "accounts": 0}
    for source, records in sent.items():
        for record in records:
            at = (record.partition, record.offset)
            if record.value is None:
                tombstones[source] += 1
                continue
            try:
                rows[source][at] = (parsed(source, record.value), record.timestamp)
            except Rejected as error:
                rejects[f"{source}/{row_name(at)}"] = {
                    "source": source,
                    "partition": at[0],
                    "offset": at[1],
                    "reason": str(error),
                    "raw": record.value[:4096].decode(errors="backslashreplace"),
                    "_ts": record.timestamp,
                }
    users, accounts = rows["users"], rows["accounts"]
    return Expected(
        {
            "users_ui": {row_name(at): {**row, "_ts": ts} for at, (row, ts) in users.items()},
            "accounts_ui": {row_name(at): {**row, "_ts": ts} for at, (row, ts) in accounts.items()},
            "final_ui": _joined(users, accounts, join),
            "rejects_ui": rejects,
        },
        tombstones,
    )


def rows_of(source: str, records: Iterable[Sent]) -> dict[Position, tuple[Row, int]]:
    """The records that are rows, with their time."""
    rows = {}
    for record in records:
        if record.value is None:
            continue
        try:
            row = parsed(source, record.value)
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
    for at, (row, ts) in accounts.items():
        if row["userId"] is not None:
            by_user.setdefault(row["userId"], []).append((ts, at, row))
    final = {}
    for at, (user, own) in users.items():
        mine = by_user.get(user["userId"], []) if user["userId"] is not None else []
        if join == "left" or (join == "left_outer" and not mine):
            newest = max(mine, key=lambda one: one[:2], default=no_account(own))
            final[row_name(at)] = joined(user, own, newest)
            continue
        for account in mine:
            final[f"{row_name(at)}+{row_name(account[1])}"] = joined(user, own, account)
    return final


def joined(user: Row, ts: int, account: Version) -> Row:
    """A row of `final_ui`."""
    of_account = {name: account[2][name] for name in ("accountType", "balance")}
    return {**user, **of_account, "_ts": max(ts, account[0])}


def no_account(ts: int) -> Version:
    """What a user without accounts is joined with."""
    return ts, (-1, -1), {"accountType": None, "balance": None}


def row_name(at: Position) -> str:
    """The identity of the row of a record."""
    return f"{at[0]}-{at[1]}"
