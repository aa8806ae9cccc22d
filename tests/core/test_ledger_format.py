"""A state record is valid, of a newer format, or malformed."""

import json
from pathlib import Path
from typing import Any

import pytest

from core import histories as h
from livejoin.core import format_versions
from livejoin.core.decide import decide
from livejoin.core.facts import CaughtUp, Fact
from livejoin.core.ledger_format import NewerState, read_state, to_json
from livejoin.core.plan import RunQueries, plan
from livejoin.core.state import LogLine, Reply, State
from livejoin.core.state import row_id as row_id_of

FIXTURES = Path(__file__).parents[1] / "fixtures"

STATE = State(last_number=7, topic_id="t", position={0: 3, 2: 7}, read_order=1_790_000_000_000)


def _encoded(**changed: Any) -> bytes:
    return json.dumps(to_json(STATE) | changed).encode()


def test_a_state_round_trips() -> None:
    assert read_state(_encoded()) == STATE


def test_warnings_about_the_message_that_is_being_built_for_are_kept() -> None:
    state = h.after([*h.LIVE, h.received_choice(0, h.B, colour=1)])
    encoded = json.loads(json.dumps(to_json(state)))
    read = read_state(json.dumps(encoded).encode())
    assert isinstance(read, State)
    assert read.building == state.building
    del encoded["building"]["origin"]["warnings"]  # as earlier versions wrote it
    earlier = read_state(json.dumps(encoded).encode())
    assert isinstance(earlier, State)
    assert earlier.building is not None
    assert earlier.building.origin is not None
    assert earlier.building.origin.warnings == ()


def _recorded() -> dict[str, dict[str, Any]]:
    """The ledger and its log as format 2 was written: 2 is live, 1 on standby, 3 being built."""
    topics: dict[str, dict[str, Any]] = json.loads((FIXTURES / "ledger-2.json").read_text())
    return topics


def _migrated() -> State:
    state = read_state(json.dumps(_recorded()["livejoin.ledger"]["state"]).encode())
    assert isinstance(state, State)
    return state


def test_the_position_of_format_2_becomes_that_of_partition_0() -> None:
    assert _recorded()["livejoin.ledger"]["state"]["position"] == 3
    assert _migrated().position == {0: 3}


def test_of_format_2_nothing_is_rebuilt() -> None:
    """Only the position is read differently: generations, topics and builds stay as they are."""
    written = _recorded()["livejoin.ledger"]["state"]
    state = _migrated()
    assert h.numbers(state) == (2, 1, 3)
    assert [generation.changelog_id for generation in state.generations] == ["id-2", "id-1", "id-3"]
    started = h.after([h.started(at=200.0, choice=h.A)], state)
    assert next(one.msg for one in started.outbox if isinstance(one, LogLine)) == (
        "migrating the ledger from format 2 to 4"
    )
    assert h.numbers(started) == (2, 1, 3)
    (runs,) = [step for step in plan(started) if isinstance(step, RunQueries)]
    assert runs.generations == state.generations
    again = to_json(state)
    for role in ("live", "standby", "building"):
        now, before = again[role], written[role]
        changed = ("origin", "sources", "choice")
        assert {name: now[name] for name in before if name not in changed} == {
            name: before[name] for name in before if name not in changed
        }
        assert now["choice"] == _by_source(before["choice"])
    same = ("lastNumber", "topicId", "ids", "movedAt", "lines", "tally")
    assert {name: again[name] for name in same} == {name: written[name] for name in same}
    assert again["wanted"] == _by_source(written["wanted"])


def _by_source(choice: dict[str, str]) -> dict[str, Any]:
    """A choice of formats up to 3 as format 4 has it."""
    topics = {name: choice[name] for name in ("users", "accounts")}
    return {"topics": topics, "join": choice["join"]}


def test_after_a_migration_each_message_still_counts_once() -> None:
    state = h.after([h.started(at=200.0, choice=h.A)], _migrated())
    assert decide(state, h.received_choice(2, h.B)) is state
    assert h.numbers(decide(state, h.received_choice(3, h.B))) == (2, 1, None)
    assert h.numbers(decide(state, h.received_choice(0, h.A, partition=1))) == (2, 1, 4)


def test_outcomes_of_messages_of_format_2_keep_their_rows() -> None:
    rows = [key.partition("/") for key in _recorded()["livejoin.logs"]]
    old = {row_id for table, _, row_id in rows if table == "control_raw"}
    history: list[Fact] = [
        h.started(at=200.0, choice=h.A),
        CaughtUp(3, 9),
        h.received(3, joinType="x"),
    ]
    replies = [one for one in h.after(history, _migrated()).outbox if isinstance(one, Reply)]
    *earlier, (position, row_id) = [(one.origin.position, one.row_id) for one in replies]
    assert {row_id for _, row_id in earlier} == {row_id_of(2)} <= old
    assert position == "0-3"
    assert row_id > max(old), "a new row comes after those of format 2"


def test_a_newer_format_is_detected() -> None:
    newer = read_state(_encoded(format=format_versions.LEDGER + 1, live="in another way"))
    assert isinstance(newer, NewerState)
    assert f"has format {format_versions.LEDGER + 1}" in newer.why


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"not JSON",
        b"[]",
        b"{}",
        _encoded(live=1),
        _encoded(live=[{}]),
        _encoded(live={"x": 1}),
        _encoded(ids=None),
        _encoded(position=3),
        _encoded(position={"x": 3}),
        _encoded(wanted={"users": "a"}),
    ],
    ids=[
        *("empty", "not-utf-8", "not-json", "a-list", "no-fields"),
        *("live-is-a-number", "live-is-a-list", "live-has-no-number", "no-ids"),
        *("one-position", "position-of-no-partition", "half-a-choice"),
    ],
)
def test_a_malformed_state_is_none(value: bytes) -> None:
    assert read_state(value) is None
