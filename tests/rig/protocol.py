"""A second implementation of `livejoin.v1`, from its documentation: frames, rows and hashes.

Shares no code with the server. Slow, and easy to compare with docs/live-protocol.md.
"""

import json
import struct
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

_ODD, _BASE, _WORD = 0x9E3779B97F4A7C15, 0x100000001B3, 1 << 64

Row = dict[str, Any]


class Replica:
    """The tables of a client, built from the frames it receives."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {}
        self.header: dict[str, Any] = {}  # of the last frame
        self.checked = 0  # heartbeats that matched

    def on_frame(self, frame: bytes) -> dict[str, Any]:
        """Apply the next frame and return its header. A heartbeat must match the rows held."""
        frame_header = header(frame)
        for part, payload in zip(frame_header["parts"], payloads(frame), strict=True):
            self._apply(part["table"], part["kind"], rows(payload))
        if frame_header["generation"] is not None:
            for table in frame_header.get("gone", ()):
                self.tables.pop(table, None)
        self.header = frame_header
        if frame_header["type"] == "heartbeat":
            self._check(frame_header)
        return frame_header

    def _apply(self, table: str, kind: str, table_rows: list[Row]) -> None:
        if kind == "snapshot":
            self.tables[table] = {}
        replica_rows = self.tables[table]
        for row in table_rows:
            if kind == "remove":
                assert list(row) == ["_id"]
                replica_rows.pop(row["_id"], None)
            else:
                replica_rows.pop(row["_id"], None)  # in the order of the last change
                replica_rows[row["_id"]] = row

    def _check(self, header: dict[str, Any]) -> None:
        for name, replica_rows in self.tables.items():
            frame_header = header["tables"][name]
            assert frame_header["rows"] == len(replica_rows), name
            assert frame_header["hash"] == table_hash(replica_rows.values()), name
        self.checked += 1

    @property
    def resume(self) -> dict[str, int]:
        """The resume position of a reconnecting client."""
        return {"generation": self.header["generation"], "seq": self.header["seq"]}


def header(frame: bytes) -> dict[str, Any]:
    """Return the header of a frame."""
    table: dict[str, Any] = json.loads(frame[4 : _begin(frame)].decode())
    return table


def payloads(frame: bytes) -> list[bytes]:
    """Return the payloads of the parts, which fill the rest of the frame."""
    at, table = _begin(frame), []
    for part in header(frame)["parts"]:
        table.append(frame[at : at + part["bytes"]])
        assert len(table[-1]) == part["bytes"], "the frame ends in mid-part"
        at += part["bytes"]
    assert at == len(frame), "bytes are left over"
    return table


class Part(NamedTuple):
    """A part of a frame, not decoded."""

    table: str
    kind: str
    payload: bytes


def parse_frame(frame: bytes) -> tuple[dict[str, Any], list[Part]]:
    """Its header and its parts."""
    at = _begin(frame)
    told: dict[str, Any] = json.loads(frame[4:at])
    parts = []
    for part in told["parts"]:
        parts.append(Part(part["table"], part["kind"], frame[at : at + part["bytes"]]))
        at += part["bytes"]
    return told, parts


def _begin(frame: bytes) -> int:
    (size,) = struct.unpack(">I", frame[:4])
    return 4 + int(size)


def rows(payload: bytes) -> list[Row]:
    """Return the rows of an Arrow IPC stream, with times in milliseconds."""
    table = pa.ipc.open_stream(payload).read_all()
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            assert str(field.type) == "timestamp[ms, tz=UTC]"
            table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    row_list: list[Row] = table.to_pylist()
    return row_list


def table_hash(table_rows: Any) -> str:
    """Return the hash of rows, which does not depend on their order."""
    return f"{sum(_row(list(row.values())) for row in table_rows) % _WORD:016x}"


def _row(cells: list[Any]) -> int:
    places = enumerate(cells, 1)
    return _mix(sum(_mix((_cell(cell) + place * _ODD) % _WORD) for place, cell in places) % _WORD)


def _cell(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, bool):
        data = bytes([value])
    elif isinstance(value, Decimal):
        sign, figures, _exponent = value.as_tuple()
        number = int("".join(map(str, figures))) * (-1 if sign else 1)
        data = number.to_bytes(16, "little", signed=True)
    else:
        data = struct.pack("<d" if isinstance(value, float) else "<q", value)
    total, power = (len(data) + 1) * _ODD, 1
    for byte in data:
        total += byte * power
        power = power * _BASE % _WORD
    return _mix(total % _WORD)


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB % _WORD
    return x ^ x >> 31
