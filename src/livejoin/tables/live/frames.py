"""Frames of `livejoin.v1`: a 4-byte length, a JSON header that long, the payloads it lists."""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from livejoin.core import format_versions

PartKind = Literal["snapshot", "upsert", "remove"]
_LENGTH = struct.Struct(">I")
_IPC_OVERHEAD_BYTES = 16 << 10  # of a schema or a batch: names, lengths, and gaps between columns


@dataclass(frozen=True)
class EncodedPart:
    """One table's change, encoded once for all viewers."""

    table: str
    kind: PartKind
    payload: bytes | memoryview


def encode_rows(table: str, kind: PartKind, rows: pa.Table | pa.RecordBatch) -> EncodedPart:
    """Encode rows as an Arrow IPC stream."""
    # room at once: a buffer that grows takes twenty times as long for 100,000 rows
    batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
    room = pa.allocate_buffer(rows.nbytes + _IPC_OVERHEAD_BYTES * (1 + len(batches)))
    sink = pa.FixedSizeBufferWriter(room)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return EncodedPart(table, kind, memoryview(room)[: sink.tell()])


def encode_removal(table: str, ids: Sequence[str]) -> EncodedPart:
    """Encode the removal of rows."""
    return encode_rows(table, "remove", pa.table({"_id": pa.array(ids, pa.string())}))


def encode_changes(
    table: str, upserts: pa.Table | pa.RecordBatch, removed: Sequence[str]
) -> list[EncodedPart]:
    """Encode what changed in a table, if anything: first what is new, then what is gone."""
    parts = [encode_rows(table, "upsert", upserts)] if upserts.num_rows else []
    return [*parts, encode_removal(table, removed)] if removed else parts


def encode_header(header: dict[str, Any], parts: Sequence[EncodedPart] = ()) -> bytes:
    """What stands before the payloads of a frame."""
    listed = [{"table": p.table, "kind": p.kind, "bytes": len(p.payload)} for p in parts]
    whole = {"format": format_versions.LIVE, **header, "parts": listed}
    text = json.dumps(whole, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


def encode_frame(header: dict[str, Any], parts: Sequence[EncodedPart] = ()) -> bytes:
    """Put a frame together."""
    return b"".join((encode_header(header, parts), *(p.payload for p in parts)))


def split_fragments(
    pieces: Sequence[bytes | memoryview], most: int
) -> Iterator[bytes | memoryview]:
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


def parse_frame(data: bytes) -> tuple[dict[str, Any], list[EncodedPart]]:
    """Take a frame apart."""
    (size,) = _LENGTH.unpack_from(data)
    at = _LENGTH.size + size
    header = json.loads(data[_LENGTH.size : at])
    parts = []
    for listed in header["parts"]:
        parts.append(EncodedPart(listed["table"], listed["kind"], data[at : at + listed["bytes"]]))
        at += listed["bytes"]
    return header, parts
