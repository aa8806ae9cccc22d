"""Messages of `livejoin.v1` on the client: parses frames, writes subscriptions."""

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
_HINT = "Check that the URL is livejoin's, and that client and server have the same version."


@dataclass(frozen=True)
class TableUpdate:
    """The part of a frame that updates one table."""

    table: str
    kind: str
    rows: pa.Table


@dataclass(frozen=True)
class ServerFrame:
    """A parsed message from the server."""

    type: str
    generation: int | None
    seq: int
    parts: tuple[TableUpdate, ...] = ()
    resumed: bool = False  # continues from the rows that the client holds
    totals: Mapping[str, int] = field(
        default_factory=dict
    )  # of tables of which clients get only the newest rows
    stale: str | None = None
    digests: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # row count and hash
    message: str = ""
    gone: frozenset[str] = frozenset()  # requested tables that do not exist now


def parse(data: bytes) -> ServerFrame:
    """Parse a frame. Raises ProtocolViolation or NewerFormat."""
    try:
        (size,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + size
        header = json.loads(data[_LENGTH.size : start])
        if reason := format_versions.unsupported_reason(
            "a frame", header.get("format"), format_versions.LIVE
        ):
            raise NewerFormat(reason, hint="Install the server's version of livejoin.")
        updates = []
        for part in header["parts"]:
            kind, end = part["kind"], start + part["bytes"]
            if kind not in _KINDS or end > len(data):
                raise ProtocolViolation(f"frame with an invalid part: {part}", hint=_HINT)
            updates.append(TableUpdate(part["table"], kind, _parse_rows(data[start:end])))
            start = end
        return _parse_header(header, tuple(updates))
    except _PARSE_ERRORS as error:
        raise ProtocolViolation(f"cannot parse a frame: {error!r}", hint=_HINT) from error


def _parse_header(header: Mapping[str, Any], parts: tuple[TableUpdate, ...]) -> ServerFrame:
    tables, limited = header.get("tables") or {}, header.get("limited") or {}
    numbers = (header["seq"], header["generation"] or 0)
    if not isinstance(header["type"], str) or any(type(n) is not int for n in numbers):
        raise ProtocolViolation("frame without a valid type, generation or seq", hint=_HINT)
    return ServerFrame(
        header["type"],
        header["generation"],
        header["seq"],
        parts,
        resumed=header.get("resumed") is True,
        totals={name: int(table["total"]) for name, table in limited.items()},
        stale=header.get("stale"),
        digests={name: (int(one["rows"]), str(one["hash"])) for name, one in tables.items()},
        message=str(header.get("message", "")),
        gone=frozenset(header.get("gone") or ()),
    )


def _parse_rows(payload: bytes) -> pa.Table:
    # the payload is a copied slice: Arrow needs aligned buffers, and frames have no padding
    with pa.ipc.open_stream(payload) as stream:
        rows = stream.read_all()
    if "_id" not in rows.column_names or rows.schema.field("_id").type != pa.string():
        raise ProtocolViolation("table without a column _id", hint=_HINT)
    return rows


def subscribe_message(tables: Iterable[str], resume: tuple[int, int] | None) -> str:
    """Return a subscription, which resumes from a generation and seq if given."""
    # tables can go and come back while this client is not connected
    message: dict[str, Any] = {"subscribe": list(tables), "wait": True}
    if resume is not None:
        message["resume"] = dict(zip(("generation", "seq"), resume, strict=True))
    return json.dumps(message)
