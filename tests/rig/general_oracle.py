"""The oracle for any spec: a plain computation of the tables that input records must give.

Written from the contract; shares no code with livejoin. A spec is given as its JSON.
"""

import decimal
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rig.oracle import Number, Rejected, Sent, convert, read_object, row_name, shown

Row = dict[str, Any]  # cells as in the changelog, without nulls
Place = tuple[int, int]
_EXACT = decimal.Context(prec=3000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3}0{0,6})?(Z|([+-])(\d\d)(:?(\d\d))?)", re.ASCII
)
_YEAR_1, _YEAR_9999 = -62135596800000, 253402300799999
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Tables:
    """The tables as the changelog gives them: rows by id; and positions of tombstones."""

    rows: dict[str, dict[str, Row]]
    times: dict[str, dict[str, int]]
    tombstones: set[str]


@dataclass(frozen=True)
class _Input:
    place: Place
    ts: int
    key: Any
    cells: Row  # without the key, under their own names


def parse(source: Mapping[str, Any], value: bytes) -> Row:
    """Return the fields of a record by their own names, or raise Rejected."""
    read = read_object(value)
    row, wrong = {}, []
    for field in source["fields"]:
        label = field.get("path") or field["name"]
        found = _at(read, field["path"]) if field.get("path") else read.get(field["name"])
        try:
            row[field["name"]] = _typed(found, field["type"])
        except Rejected as error:
            wrong.append(f"{label}: expected {field['type']}, got {error}")
    if wrong:
        raise Rejected("; ".join(wrong))
    return row


def column_names(sources: list[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return the name in `final_ui` of every field, by source and own name."""
    key = sources[0]["key"]
    names, taken = {}, {key.lower()}
    for source in sources:
        for field in source["fields"]:
            own = field["name"]
            if own == source["key"]:
                names[source["name"], own] = key
                continue
            name = own if own.lower() not in taken else f"{source['name']}_{own}"
            taken.add(name.lower())
            names[source["name"], own] = name
    return names


def expected(
    spec: Mapping[str, Any],
    sent: Mapping[str, Iterable[Sent]],
    topics: Mapping[str, str],
    join: str,
) -> Tables:
    """Return the tables that result from these records."""
    sources = spec["sources"]
    names = column_names(sources)
    tables = Tables({"final_ui": {}, "rejects_ui": {}}, {"final_ui": {}, "rejects_ui": {}}, set())
    inputs: list[list[_Input]] = []
    for source in sources:
        name = source["name"]
        found = []
        rows = tables.rows[f"{name}_ui"] = {}
        times = tables.times[f"{name}_ui"] = {}
        for record in sent.get(name, ()):
            place = record.partition, record.offset
            if record.value is None:
                tables.tombstones.add(f"{name}/{row_name(place)}")
                continue
            try:
                row = parse(source, record.value)
            except Rejected as error:
                reject_id = f"{name}/{row_name(place)}"
                tables.rows["rejects_ui"][reject_id] = {
                    "source": name,
                    "topic": topics[name],
                    "partition": place[0],
                    "offset": place[1],
                    "ts": record.timestamp,
                    "reason": str(error),
                }
                tables.times["rejects_ui"][reject_id] = record.timestamp
                continue
            cells = {names[name, own]: cell for own, cell in row.items() if cell is not None}
            rows[row_name(place)] = cells
            times[row_name(place)] = record.timestamp
            found.append(_Input(place, record.timestamp, row[source["key"]], cells))
        inputs.append(found)
    _join(tables, inputs, join)
    return tables


def _join(tables: Tables, inputs: list[list[_Input]], join: str) -> None:
    rows, times = tables.rows["final_ui"], tables.times["final_ui"]
    driver, *lookups = inputs
    for one in driver:
        matches = [
            [other for other in lookup if one.key is not None and other.key == one.key]
            for lookup in lookups
        ]
        if join == "left" or (join == "left_outer" and not matches[0]):
            newest = [max(m, key=lambda other: (other.ts, other.place)) for m in matches if m]
            cells = [other.cells for other in newest]
            rows[row_name(one.place)] = {k: v for c in (one.cells, *cells) for k, v in c.items()}
            times[row_name(one.place)] = max(one.ts, *(other.ts for other in newest), one.ts)
            continue
        for other in matches[0]:
            pair = f"{row_name(one.place)}+{row_name(other.place)}"
            rows[pair], times[pair] = one.cells | other.cells, max(one.ts, other.ts)


def _at(value: Any, path: str) -> Any:
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path.removeprefix("$")):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            inside = isinstance(value, list) and int(index) < len(value)
            value = value[int(index)] if inside else None
    return value


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise Rejected(_got(value))
    if kind == "timestamp":
        return _timestamp(value)
    if kind.startswith("decimal"):
        return _decimal(value, *map(int, re.findall(r"\d+", kind)))
    return convert(value, kind)


def _timestamp(value: Any) -> int:
    ms = None
    if isinstance(value, Number):
        ms = convert(value, "int64")
    elif isinstance(value, str) and (found := _ISO.fullmatch(value)) and value[:4] != "0000":
        try:
            local = datetime.fromisoformat(f"{value[:19]}+00:00")
        except ValueError:
            raise Rejected(_got(value)) from None
        seconds = local.timestamp()
        hours, minutes = int(found[4] or 0), int(found[6] or 0)
        shift = (-1 if found[3] == "-" else 1) * (hours * 60 + minutes)
        if minutes < 60 and abs(shift) <= 18 * 60:
            thousandths = int((found[1] or ".0")[1:4].ljust(3, "0"))
            ms = int(seconds) * 1000 + thousandths - shift * 60_000
    if ms is None or not _YEAR_1 <= ms <= _YEAR_9999:
        raise Rejected(_got(value))
    return int(ms)


def _decimal(value: Any, precision: int, scale: int) -> str:
    if isinstance(value, str) and _JSON_NUMBER.fullmatch(value):
        number = _EXACT.create_decimal(value)
        if -400 < number.adjusted() < 400 or not number:
            scaled = number.scaleb(scale, _EXACT) if number else decimal.Decimal(0)
            if scaled == scaled.to_integral_value() and abs(scaled) < 10**precision:
                digits = str(abs(int(scaled))).rjust(scale + 1, "0")
                sign = "-" if scaled < 0 else ""
                whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
                return f"{sign}{whole}.{part}" if scale else f"{sign}{whole}"
    raise Rejected(_got(value))


def _got(value: Any) -> str:
    return str(value) if isinstance(value, Number) else shown(value)
