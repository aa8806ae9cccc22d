"""The durable state round-trips through the ledger."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import histories as h
from core.changelog_strategies import TEXT
from livejoin.core.generation import Generation, GenerationHealth, Origin, Reading
from livejoin.core.ledger_format import format_error, from_json, to_json
from livejoin.core.spec import DEFAULT, Choice, Join
from livejoin.core.state import Limits, LogLine, Reply, State

COUNTS = st.integers(0, 2**62)
TIMES = st.floats(0, 4e9)
NAMED = st.none() | TEXT
OFFSETS = st.dictionaries(st.integers(0, 300), COUNTS, max_size=4)
JOINS: st.SearchStrategy[Join] = st.sampled_from(["left", "inner", "left_outer"])
CHOICES = st.builds(Choice, st.dictionaries(st.sampled_from(["users", "accounts"]), TEXT), JOINS)
SOURCE = st.sampled_from(["users", "accounts"])
ORIGINS = st.builds(
    Origin,
    COUNTS,
    TIMES,
    by=TEXT,
    raw=TEXT,
    id=NAMED,
    topics=st.dictionaries(SOURCE, TEXT),
    join=NAMED,
    partition=st.integers(0, 300),
    read_order=st.none() | COUNTS,
)
GENERATIONS = st.builds(
    Generation,
    number=COUNTS,
    choice=CHOICES,
    requested_at=TIMES,
    by=TEXT,
    origin=st.none() | ORIGINS,
    start=st.dictionaries(SOURCE, TEXT),
    sources=st.dictionaries(SOURCE, st.builds(Reading, TEXT, TEXT, OFFSETS, OFFSETS)),
    fingerprint=TEXT,
    ready_at=st.none() | COUNTS,
    live_at=st.none() | TIMES,
    took_s=st.none() | TIMES,
)
DURABLE = st.builds(
    State,
    last_number=COUNTS,
    topic_id=TEXT,
    position=OFFSETS,
    read_order=COUNTS,
    ids=st.lists(TEXT, max_size=3).map(tuple),
    desired=st.none() | CHOICES,
    live=st.none() | GENERATIONS,
    standby=st.none() | GENERATIONS,
    building=st.none() | GENERATIONS,
    swapped_at=TIMES,
    line_count=COUNTS,
    tally=st.dictionaries(TEXT, COUNTS, max_size=3),
)


PARTS = ("choice", "origin")  # of a generation


def _ledger_json(state: State) -> Any:
    return json.loads(json.dumps(to_json(state)))


@given(DURABLE)
def test_the_durable_state_round_trips(state: State) -> None:
    assert from_json(_ledger_json(state)) == state


@given(DURABLE)
def test_the_ledger_json_round_trips(state: State) -> None:
    assert _ledger_json(from_json(_ledger_json(state))) == _ledger_json(state)


@given(DURABLE)
def test_transient_state_is_not_written(state: State) -> None:
    later = replace(
        state,
        outbox=(LogLine(1, 0.0, "INFO", "ready", "started"),),
        now=9.0,
        monotonic=9.0,
        swapped_monotonic=8.0,
        limits=Limits(slots=1),
        health={1: GenerationHealth(error="boom", given_up=True)},
        control_error="boom",
        rebuild_at=11.0,
    )
    assert to_json(later) == to_json(state)


@pytest.mark.parametrize(
    ("done", "total", "percent"),
    [(0, 0, 0), (0, 10, 0), (1, 3, 33), (999, 1000, 99), (10, 10, 99), (12, 10, 99)],
)
def test_the_progress_of_a_build_stays_below_100_percent(
    done: int, total: int, percent: int
) -> None:
    assert GenerationHealth(done=done, total=total).percent == percent


def test_there_are_at_most_three_generations() -> None:
    assert [generation.number for generation in h.after(h.FURTHER_READS).generations] == [2, 1, 3]
    assert State().generations == ()


def test_a_generation_is_found_by_its_number() -> None:
    state = h.after(h.SWAPPED)
    assert state.find(1) is state.standby
    assert state.find(3) is None


def test_standby_until_is_a_fixed_time_after_the_swap() -> None:
    assert h.after(h.SWAPPED).standby_until == 1008.0
    assert h.after(h.LIVE).standby_until is None
    assert h.after(h.with_limits(h.SWAPPED, standby_s=math.inf)).standby_until is None


def test_slots_for_source_bootstrap_and_shuffle_partitions() -> None:
    assert Limits(shuffle_partitions=3).slots_needed(5) == 9


def test_a_health_change_affects_one_generation() -> None:
    state = h.after(h.SWAPPED)
    live, standby = state.live, state.standby
    assert live is not None
    assert standby is not None
    changed = state.with_health(live, error="boom")
    assert changed.health_of(live) == replace(state.health_of(live), error="boom")
    assert changed.health_of(standby) == state.health_of(standby)


def test_health_is_good_by_default() -> None:
    assert State().health_of(Generation(1, DEFAULT.choice("u", "a"), 0.0)) == GenerationHealth()


def test_history_length_and_offsets_after_the_pins() -> None:
    reading = Reading("users", "id", start={0: 10, 1: 0, 2: 7}, pins={0: 19, 1: 0})
    assert reading.history_length == 10 + 1
    assert reading.after_pins == {0: 20, 1: 1, 2: 7}
    both = {"users": reading, "accounts": replace(reading, pins={2: 7})}
    assert Generation(1, DEFAULT.choice("u", "a"), 0.0, sources=both).history_length == 11 + 1


def test_a_newer_ledger_format_is_refused_with_its_number() -> None:
    data = to_json(h.after(h.LIVE))
    assert format_error(data) == ""
    known = "this livejoin knows up to"
    assert format_error({"format": 5, "live": "?"}) == f"the ledger has format 5, {known} 4"
    assert format_error({"format": "x"}) == f"the ledger has format x, {known} 4"
    data["live"]["changelog_format"] = 3
    assert format_error(data) == f"the changelog of generation 1 has format 3, {known} 2"


def _before_format_4(choice: dict[str, Any]) -> dict[str, Any]:
    return {**choice["topics"], "join": choice["join"]}


def test_a_ledger_of_format_1_is_migrated() -> None:
    """Format 1 has no topic ids: the live generation is kept, and a build starts again."""
    data = to_json(h.after(h.SWAP_READS))
    del data["format"]
    data["position"] = 1
    for role in ("live", "building"):
        for name in ("changelog_id", "feed_id", "changelog_format", "spec"):
            del data[role][name]
        data[role]["choice"] = _before_format_4(data[role]["choice"])
        data[role]["origin"] = None
    data["wanted"] = _before_format_4(data["wanted"])
    assert format_error(data) == ""
    state = from_json(data)
    assert state.position == {0: 1}
    assert state.live is not None
    assert not state.live.has_topics
    assert state.building is not None
    assert not state.building.resolved
    assert h.lines([h.STARTED], state)[0] == (
        "INFO migrating the ledger from format 1 to 4; the live generation is rebuilt"
    )
    assert state.runnable() == (state.live,), "it is started, and the pipeline then refuses it"
    first = from_json({**data, "live": None, "building": None})
    assert h.lines([h.STARTED], first)[0] == "INFO migrating the ledger from format 1 to 4"


@given(DURABLE)
def test_fields_added_by_a_later_version_are_ignored(state: State) -> None:
    """The format number is raised only if an older version would misread the state."""
    data = _ledger_json(state)
    assert from_json(_with_unknown_fields(data)) == state
    assert format_error(_with_unknown_fields(data)) == ""


def _with_unknown_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Add an unknown field to every object; `sources`, `start` and the like are maps by name."""
    result = data | {"new": 1}
    for role in ("live", "standby", "building"):
        if data[role] is not None:
            sources = {
                name: reading | {"new": 1} for name, reading in data[role]["sources"].items()
            }
            parts = {name: data[role][name] and data[role][name] | {"new": 1} for name in PARTS}
            result[role] = data[role] | parts | {"new": 1, "sources": sources}
    return result | {"wanted": data["wanted"] and data["wanted"] | {"new": 1}}


def test_a_changed_max_rows_applies_to_the_next_generation() -> None:
    durable = from_json(_ledger_json(h.after(h.with_limits(h.LIVE, max_rows=7))))
    start = h.started(200.0, h.A, Limits(max_rows=5))
    state = h.after([start, h.received(1, joinType="inner")], durable)
    assert state.live is not None
    assert state.building is not None
    assert (state.live.max_rows, state.building.max_rows) == (7, 5)


def test_a_checkpoint_name_contains_the_changelog_id() -> None:
    live = h.after(h.LIVE).live
    assert live is not None
    assert replace(live, changelog_id="a/b+c").checkpoint == "1/a_b-c"
    assert replace(live, changelog_id="").checkpoint == "1"


def test_a_reply_has_its_position_and_number_as_headers() -> None:
    reply = Reply(Origin(7, 1.0, "kafka", "{}", partition=2), "live", 3.0, line=12)
    assert reply.headers() == {
        "livejoin-partition": 2,
        "livejoin-offset": 7,
        "livejoin-line": 12,
    }
