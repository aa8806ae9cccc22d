"""Frames of `livejoin.v1`: a 4-byte length, a JSON header that long, the payloads it lists."""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from livejoin.core import format_versions

Kind = Literal["snapshot", "upsert", "remove"]
_LENGTH = struct.Struct(">I")
_AROUND = 16 << 10  # of a schema or a batch: names, lengths, and gaps between columns


@dataclass(frozen=True)
class Part:
    """One table's change, encoded once for all viewers."""

    table: str
    kind: Kind
    payload: bytes | memoryview


def part(table: str, kind: Kind, rows: pa.Table | pa.RecordBatch) -> Part:
    """Encode rows as an Arrow IPC stream."""
    # room at once: a buffer that grows takes twenty times as long for 100,000 rows
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    room = pa.allocate_buffer(rows.nbytes + _AROUND * (1 + len(batches)))
    sink = pa.FixedSizeBufferWriter(room)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return Part(table, kind, memoryview(room)[: sink.tell()])


def removal(table: str, ids: Sequence[str]) -> Part:
    """Encode the removal of rows."""
    return part(table, "remove", pa.table({"_id": pa.array(ids, pa.string())}))


def changes(table: str, upserts: pa.Table | pa.RecordBatch, removed: Sequence[str]) -> list[Part]:
    """Encode what changed in a table, if anything: first what is new, then what is gone."""
    parts = [part(table, "upsert", upserts)] if upserts.num_rows else []
    return [*parts, removal(table, removed)] if removed else parts


def head(header: dict[str, Any], parts: Sequence[Part] = ()) -> bytes:
    """What stands before the payloads of a frame."""
    listed = [{"table": p.table, "kind": p.kind, "bytes": len(p.payload)} for p in parts]
    whole = {"format": format_versions.LIVE, **header, "parts": listed}
    text = json.dumps(whole, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


def frame(header: dict[str, Any], parts: Sequence[Part] = ()) -> bytes:
    """Put a frame together."""
    return b"".join((head(header, parts), *(p.payload for p in parts)))


def fragments(pieces: Sequence[bytes | memoryview], most: int) -> Iterator[bytes | memoryview]:
    """All bytes of the pieces, in runs of this many; only the last one is shorter."""
    some: list[memoryview] = []
    room = most
    for piece in pieces:
        left = memoryview(piece)
        while left:
            some.append(left[:room])
            left, room = left[room:], room - len(some[-1])
            if not room:
                yield some[0] if len(some) == 1 else b"".join(some)
                some, room = [], most
    if some:
        yield b"".join(some)


def read(data: bytes) -> tuple[dict[str, Any], list[Part]]:
    """Take a frame apart."""
    (size,) = _LENGTH.unpack_from(data)
    at = _LENGTH.size + size
    header = json.loads(data[_LENGTH.size : at])
    parts = []
    for listed in header["parts"]:
        parts.append(Part(listed["table"], listed["kind"], data[at : at + listed["bytes"]]))
        at += listed["bytes"]
    return header, parts
