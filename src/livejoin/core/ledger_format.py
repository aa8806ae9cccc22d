"""The state as JSON in the ledger: reading it, and migrating it from earlier formats.

The record may be of another version, or no state at all.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from livejoin.core import format_versions, spec
from livejoin.core.generation import Generation, Offsets, Origin, Reading
from livejoin.core.json_object import parse_object
from livejoin.core.spec import Choice
from livejoin.core.state import State

_POSITION_BY_PARTITION = 3  # from this format on


class NewerState(NamedTuple):
    """A state that a newer livejoin wrote."""

    why: str


def read_state(value: bytes) -> State | NewerState | None:
    """The state in a record; None if there is none in it."""
    data = parse_object(value)
    if data is None:
        return None
    try:
        why = format_error(data)
        return NewerState(why) if why else from_json(data)
    except (LookupError, TypeError, ValueError, AttributeError):  # fields are missing or malformed
        return None


def to_json(state: State) -> dict[str, Any]:
    """The durable part, for the ledger. The outbox is written in the same transaction."""
    return {
        "format": format_versions.LEDGER,
        "lastNumber": state.last_number,
        "topicId": state.topic_id,
        "position": state.position,
        "readOrder": state.read_order,
        "ids": list(state.ids),
        "wanted": asdict(state.desired) if state.desired else None,
        "live": _generation_to_json(state.live),
        "standby": _generation_to_json(state.standby),
        "building": _generation_to_json(state.building),
        "movedAt": state.swapped_at,
        "lines": state.line_count,
        "replies": state.reply_line,
        "tally": dict(state.tally),
    }


def format_error(data: Mapping[str, Any]) -> str:
    """Why a state of the ledger cannot be read: a newer version wrote it. Empty if it can."""
    if why := format_versions.unsupported_reason(
        "the ledger", data.get("format"), format_versions.LEDGER
    ):
        return why
    found = (data[role] for role in ("live", "standby", "building"))
    for generation in filter(None, found):
        what = f"the changelog of generation {generation['number']}"
        if why := format_versions.unsupported_reason(
            what, generation.get("changelog_format"), format_versions.CHANGELOG
        ):
            return why
    return ""


def from_json(data: Mapping[str, Any]) -> State:
    """Decode the durable part. Call `format_error` first."""
    read_format = data.get("format", 1)
    building = _generation_from_json(data["building"])
    if building is not None and read_format == 1:
        # format 1 has no topic ids: the build starts over with new topics
        building = replace(building, sources={}, fingerprint="")
    return State(
        ledger_format=read_format,
        last_number=data["lastNumber"],
        topic_id=data["topicId"],
        position=_position_from_json(data["position"], read_format),
        read_order=data.get("readOrder", 0),
        ids=tuple(data["ids"]),
        desired=Choice(**format_versions.known_fields(Choice, data["wanted"]))
        if data["wanted"]
        else None,
        live=_generation_from_json(data["live"]),
        standby=_generation_from_json(data["standby"]),
        building=building,
        swapped_at=data["movedAt"],
        line_count=data["lines"],
        reply_line=data.get("replies", 0),  # as tally
        tally=data.get("tally", {}),  # missing in ledgers of earlier versions
    )


def _position_from_json(position: Any, read_format: int) -> Offsets:
    """Decode the position; up to format 2 it is one offset, of the only partition."""
    if read_format < _POSITION_BY_PARTITION:
        return {0: int(position)}
    return {int(partition): offset for partition, offset in position.items()}


def _generation_to_json(generation: Generation | None) -> dict[str, Any] | None:
    """Encode for the ledger."""
    return None if generation is None else asdict(generation)


def _generation_from_json(data: Mapping[str, Any] | None) -> Generation | None:
    """Decode from the ledger. JSON turns partition numbers, which are keys, into text."""
    if data is None:
        return None
    sources = {
        name: Reading(
            reading["topic"],
            reading["topic_id"],
            {int(p): offset for p, offset in reading["start"].items()},
            {int(p): offset for p, offset in reading["pins"].items()},
        )
        for name, reading in data["sources"].items()
    }
    origin = _origin_from_json(data["origin"]) if data["origin"] else None
    choice = spec.Choice(**format_versions.known_fields(spec.Choice, data["choice"]))
    fields = format_versions.known_fields(Generation, data)
    return Generation(**{**fields, "choice": choice, "origin": origin, "sources": sources})


def _origin_from_json(data: Mapping[str, Any]) -> Origin:
    """Decode from the ledger. JSON has lists for tuples; earlier versions wrote no warnings."""
    fields = format_versions.known_fields(Origin, data)
    return Origin(**{**fields, "warnings": tuple(data.get("warnings", ()))})
