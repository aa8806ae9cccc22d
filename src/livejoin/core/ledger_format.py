"""The state as JSON in the ledger: reading it, and migrating it from earlier formats.

The record may be of another version, or no state at all.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from livejoin.core import format_versions
from livejoin.core.generation import Generation, Offsets, Origin, Reading
from livejoin.core.json_object import parse_object
from livejoin.core.spec import DEFAULT, Choice, JoinSpec
from livejoin.core.state import State

# from these formats on
_POSITION_BY_PARTITION = 3
_TOPICS_BY_SOURCE = 4


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
        "wanted": _choice_to_json(state.desired) if state.desired else None,
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
    building = _generation_from_json(data["building"], read_format)
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
        desired=_choice_from_json(data["wanted"], read_format) if data["wanted"] else None,
        live=_generation_from_json(data["live"], read_format),
        standby=_generation_from_json(data["standby"], read_format),
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
    if generation is None:
        return None
    return {**asdict(generation), "spec": generation.spec.to_json()}


def _generation_from_json(data: Mapping[str, Any] | None, read_format: int) -> Generation | None:
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
    decoded = {
        "choice": _choice_from_json(data["choice"], read_format),
        "origin": _origin_from_json(data["origin"], read_format) if data["origin"] else None,
        "sources": sources,
        "spec": JoinSpec.from_json(data["spec"]) if "spec" in data else DEFAULT,
    }
    return Generation(**{**format_versions.known_fields(Generation, data), **decoded})


def _choice_to_json(choice: Choice) -> dict[str, Any]:
    """Encode for the ledger."""
    return asdict(choice)


def _choice_from_json(data: Mapping[str, Any], read_format: int) -> Choice:
    """Decode a choice; up to format 3 it has the topics beside the join."""
    if read_format < _TOPICS_BY_SOURCE:
        return Choice(_default_topics(data), data["join"])
    return Choice(dict(data["topics"]), data["join"])


def _default_topics(data: Mapping[str, Any]) -> dict[str, str]:
    """The topics of the default sources, which earlier formats have as fields."""
    return {name: data[name] for name in DEFAULT.source_names if data.get(name) is not None}


def _origin_from_json(data: Mapping[str, Any], read_format: int) -> Origin:
    """Decode from the ledger. JSON has lists for tuples; earlier versions wrote no warnings."""
    fields = format_versions.known_fields(Origin, data)
    topics = data["topics"] if read_format >= _TOPICS_BY_SOURCE else _default_topics(data)
    warnings = tuple(data.get("warnings", ()))
    return Origin(**{**fields, "topics": dict(topics), "warnings": warnings})
