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
from typing import Any, NamedTuple

FIELDS = {
    "users": {"userId": "string", "name": "string", "email": "string", "age": "int64"},
    "accounts": {"userId": "string", "accountType": "string", "balance": "double"},
}
Row = dict[str, Any]
Position = tuple[int, int]


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
            if row is None or its is None or _known(row, its) != _known(its, its):
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
            mine, true = _known(row, its), _known(its, its)
            count += sum(mine[name] != true[name] for name in true)
        elif row is not None:
            count += len(row)
    return count


def unlike_their_records(
    found: Mapping[str, Mapping[str, Row]], sent: Mapping[str, Iterable[Sent]]
) -> list[Difference]:
    """Rows whose cells are not those of the record that they name.

    For tables that are read while records come: a record that is not known yet is left alone.
    """
    wrong = []
    for source in FIELDS:
        there = found[f"{source}_ui"]
        for record in sent[source]:
            row_id = _id((record.partition, record.offset))
            row = there.get(row_id)
            if row is None or record.value is None:
                continue
            try:
                its: Row | None = _parsed(source, record.value)
            except Rejected:
                its = None  # such a row must not be
            if its is None or {name: row[name] for name in its} != its:
                wrong.append(Difference(f"{source}_ui", row_id, row, its))
    return wrong


def older_than_shown(
    found: Mapping[str, Mapping[str, Row]], sent: Mapping[str, Iterable[Sent]]
) -> list[str]:
    """Rows of a left join whose account is neither the newest that is shown nor a newer one."""
    newest: dict[str, tuple[tuple[int, Position], Row]] = {}
    later: dict[str, list[tuple[tuple[int, Position], Row]]] = {}
    for record in sent["accounts"]:
        at = (record.partition, record.offset)
        try:
            row = _parsed("accounts", record.value or b"")
        except Rejected:
            continue
        user, version = row["userId"], (record.timestamp, at)
        later.setdefault(user, []).append((version, row))
        if _id(at) in found["accounts_ui"]:
            newest[user] = max(newest.get(user, (version, row)), (version, row), key=lambda o: o[0])
    may = {
        user: [_rest(one) for version, one in later[user] if version >= least]
        for user, (least, _) in newest.items()
    }
    return [
        f"final_ui {row_id} is {row}, the newest account {newest[row['userId']][1]}"
        for row_id, row in found["final_ui"].items()
        if row["userId"] in may and _rest(row) not in may[row["userId"]]
    ]


def without_records(
    found: Mapping[str, Mapping[str, Row]], sent: Mapping[str, Iterable[Sent]]
) -> list[str]:
    """Rows that name a record which nobody has sent."""
    users, accounts = ({_id((one.partition, one.offset)) for one in sent[s]} for s in FIELDS)
    wrong = [f"users_ui {row_id}" for row_id in found["users_ui"].keys() - users]
    wrong += [f"accounts_ui {row_id}" for row_id in found["accounts_ui"].keys() - accounts]
    for row_id in found["final_ui"]:
        user, _, account = row_id.partition("+")
        if user not in users or (account and account not in accounts):
            wrong.append(f"final_ui {row_id}")
    return [f"{one} is of no record that was acknowledged" for one in wrong]


@functools.lru_cache(maxsize=1 << 18)
def _parsed(source: str, value: bytes) -> Row:
    """Compared again and again, parsed once."""
    return parse(source, value)


def _known(row: Row, its: Row) -> Row:
    cells = {name: row.get(name) for name in its}
    if "reason" in cells:
        cells["reason"] = _plain_reason(str(cells["reason"]))
    return cells


def _plain_reason(reason: str) -> str:
    """What was found is cut; of a value that is broken as a whole only the kind is known."""
    return reason.partition(", got ")[0] if reason.startswith("value") else reason[:60]


def expected(sent: Mapping[str, Iterable[Sent]], join: str = "left") -> Expected:
    """What the tables must show once all of these records have been read."""
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
                rows[source][at] = (_parsed(source, record.value), record.timestamp)
            except Rejected as error:
                rejects[f"{source}/{_id(at)}"] = {
                    "source": source,
                    "partition": at[0],
                    "offset": at[1],
                    "reason": str(error),
                    "raw": record.value[:4096].decode(errors="backslashreplace"),
                }
    return Expected(
        {
            "users_ui": {_id(at): row for at, (row, _) in rows["users"].items()},
            "accounts_ui": {_id(at): row for at, (row, _) in rows["accounts"].items()},
            "final_ui": _joined(rows["users"], rows["accounts"], join),
            "rejects_ui": rejects,
        },
        tombstones,
    )


def _joined(
    users: Mapping[Position, tuple[Row, int]],
    accounts: Mapping[Position, tuple[Row, int]],
    join: str,
) -> dict[str, Row]:
    by_user: dict[str, list[tuple[tuple[int, Position], Row]]] = {}
    for at, (row, ts) in accounts.items():
        if row["userId"] is not None:
            by_user.setdefault(row["userId"], []).append(((ts, at), row))
    final = {}
    nothing = {"accountType": None, "balance": None}
    for at, (user, _) in users.items():
        mine = by_user.get(user["userId"], []) if user["userId"] is not None else []
        if join == "left":
            final[_id(at)] = {
                **user,
                **_rest(max(mine, key=lambda m: m[0])[1] if mine else nothing),
            }
            continue
        for (_, other), account in mine:
            final[f"{_id(at)}+{_id(other)}"] = {**user, **_rest(account)}
        if not mine and join == "left_outer":
            final[_id(at)] = {**user, **nothing}
    return final


def _rest(account: Mapping[str, Any]) -> Row:
    return {"accountType": account["accountType"], "balance": account["balance"]}


def _id(at: Position) -> str:
    return f"{at[0]}-{at[1]}"
