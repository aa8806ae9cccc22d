"""`livejoin.v1` a second time, from its description alone: frames taken apart, rows kept, hashed.

Shares no code with the server. Slow, and easy to compare with docs/live-protocol.md.
"""

import json
import struct
from typing import Any, NamedTuple

import pyarrow as pa

_ODD, _BASE, _WORD = 0x9E3779B97F4A7C15, 0x100000001B3, 1 << 64

Row = dict[str, Any]


class Replica:
    """What a client makes of the frames that it is sent."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {}
        self.header: dict[str, Any] = {}  # of the last frame
        self.checked = 0  # heartbeats that told what we hold

    def take(self, frame: bytes) -> dict[str, Any]:
        """Apply the next frame; its header. A heartbeat must tell just what is held."""
        told = header(frame)
        for part, payload in zip(told["parts"], payloads(frame), strict=True):
            self._apply(part["table"], part["kind"], rows(payload))
        self.header = told
        if told["type"] == "heartbeat":
            self._check(told)
        return told

    def _apply(self, table: str, kind: str, some: list[Row]) -> None:
        if kind == "snapshot":
            self.tables[table] = {}
        held = self.tables[table]
        for row in some:
            if kind == "remove":
                assert list(row) == ["_id"]
                held.pop(row["_id"], None)
            else:
                held.pop(row["_id"], None)  # the order is that of the last change
                held[row["_id"]] = row

    def _check(self, header: dict[str, Any]) -> None:
        for name, held in self.tables.items():
            told = header["tables"][name]
            assert told["rows"] == len(held), name
            assert told["hash"] == table_hash(held.values()), name
        self.checked += 1

    @property
    def resume(self) -> dict[str, int]:
        """What a client says when it comes back."""
        return {"generation": self.header["generation"], "seq": self.header["seq"]}


def header(frame: bytes) -> dict[str, Any]:
    """What a frame says of itself."""
    found: dict[str, Any] = json.loads(frame[4 : _begin(frame)].decode())
    return found


def payloads(frame: bytes) -> list[bytes]:
    """The payloads of its parts, which fill the rest of it."""
    at, found = _begin(frame), []
    for part in header(frame)["parts"]:
        found.append(frame[at : at + part["bytes"]])
        assert len(found[-1]) == part["bytes"], "the frame ends in mid-part"
        at += part["bytes"]
    assert at == len(frame), "bytes are left over"
    return found


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
    """The rows of an Arrow IPC stream; times as milliseconds."""
    found = pa.ipc.open_stream(payload).read_all()
    for place, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type):
            assert str(field.type) == "timestamp[ms, tz=UTC]"
            found = found.set_column(place, field.name, found.column(place).cast(pa.int64()))
    listed: list[Row] = found.to_pylist()
    return listed


def table_hash(some: Any) -> str:
    """The hash of rows in any order."""
    return f"{sum(_row(list(row.values())) for row in some) % _WORD:016x}"


def _row(cells: list[Any]) -> int:
    places = enumerate(cells, 1)
    return _mix(sum(_mix((_cell(cell) + place * _ODD) % _WORD) for place, cell in places) % _WORD)


def _cell(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        data = value.encode()
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
