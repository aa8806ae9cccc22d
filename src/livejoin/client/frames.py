"""`livejoin.v1` as a client reads it: frames taken apart and checked, subscriptions written."""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from livejoin.core import format_versions
from livejoin.errors import NewerFormat, ProtocolViolation

SUBPROTOCOL = "livejoin.v1"
_KINDS = ("snapshot", "upsert", "remove")
_LENGTH = struct.Struct(">I")
_PARSE_ERRORS = (
    *(struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError),
    *(OSError, pa.ArrowException),
)
_HINT = "Check that the address is livejoin's and that both are of one version."


@dataclass(frozen=True)
class TableUpdate:
    """What one frame says of one table."""

    table: str
    kind: str
    rows: pa.Table


@dataclass(frozen=True)
class ServerFrame:
    """One message of the server."""

    type: str
    generation: int | None
    seq: int
    parts: tuple[TableUpdate, ...] = ()
    resumed: bool = False  # it goes on from what the client holds
    totals: Mapping[str, int] = field(default_factory=dict)  # where viewers get only the newest
    newest: int | None = None
    stale: str | None = None
    digests: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # rows and hash
    message: str = ""


def parse(data: bytes) -> ServerFrame:
    """Take a frame apart."""
    try:
        (size,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + size
        header = json.loads(data[_LENGTH.size : at])
        if why := format_versions.unsupported_reason(
            "a frame", header.get("format"), format_versions.LIVE
        ):
            raise NewerFormat(why, hint="Install the livejoin that the server has.")
        parts = []
        for listed in header["parts"]:
            kind, end = listed["kind"], at + listed["bytes"]
            if kind not in _KINDS or end > len(data):
                raise ProtocolViolation(f"a frame has a bad part {listed}", hint=_HINT)
            parts.append(TableUpdate(listed["table"], kind, _parse_rows(data[at:end])))
            at = end
        return _parse_header(header, tuple(parts))
    except _PARSE_ERRORS as error:
        raise ProtocolViolation(f"a frame cannot be read: {error!r}", hint=_HINT) from error


def _parse_header(header: Mapping[str, Any], parts: tuple[TableUpdate, ...]) -> ServerFrame:
    tables, limited = header.get("tables") or {}, header.get("limited") or {}
    numbers = (header["seq"], header["generation"] or 0)
    if not isinstance(header["type"], str) or any(type(n) is not int for n in numbers):
        raise ProtocolViolation("a frame does not say what it is", hint=_HINT)
    return ServerFrame(
        header["type"],
        header["generation"],
        header["seq"],
        parts,
        resumed=header.get("resumed") is True,
        totals={name: int(one["total"]) for name, one in limited.items()},
        newest=header.get("newest"),
        stale=header.get("stale"),
        digests={name: (int(one["rows"]), str(one["hash"])) for name, one in tables.items()},
        message=str(header.get("message", "")),
    )


def _parse_rows(payload: bytes) -> pa.Table:
    # a slice is a copy: Arrow wants its buffers aligned, and a frame packs them without padding
    with pa.ipc.open_stream(payload) as stream:
        rows = stream.read_all()
    if "_id" not in rows.column_names or rows.schema.field("_id").type != pa.string():
        raise ProtocolViolation("a table has no _id", hint=_HINT)
    return rows


def subscribe_message(tables: Iterable[str], resume: tuple[int, int] | None) -> str:
    """Ask for tables, from a generation and seq on where that is known."""
    message: dict[str, Any] = {"subscribe": list(tables)}
    if resume is not None:
        message["resume"] = dict(zip(("generation", "seq"), resume, strict=True))
    return json.dumps(message)
