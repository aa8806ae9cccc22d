"""What a start with other declared sources does to the generations and choices there are."""

from dataclasses import replace

import pytest

from core import histories as h
from livejoin.core import spec
from livejoin.core.control_messages import InvalidMessage, MessageRules, parse_message
from livejoin.core.facts import CaughtUp, LeaderStarted
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.names import Names
from livejoin.core.state import LogLine, State

USERS, ACCOUNTS = spec.DEFAULT.sources
WIDER = replace(USERS, fields=(*USERS.fields, spec.Column("city", "string")))
CHANGED = spec.JoinSpec((WIDER, ACCOUNTS))
PETS = spec.Source(
    "pets", (spec.Column("userId", "string"), spec.Column("pet", "string")), "userId"
)
MORE = spec.JoinSpec((USERS, ACCOUNTS, PETS))
LESS = spec.JoinSpec((USERS, PETS))


def restarted(state: State, with_spec: spec.JoinSpec, choice: spec.Choice) -> State:
    """Another leader resumes from the ledger, with these sources in its settings."""
    stored = replace(state, outbox=())
    return h.after(
        [LeaderStarted(200.0, 200.0, choice, spec=with_spec)], from_json(to_json(stored))
    )


def log_lines(state: State) -> list[LogLine]:
    return [item for item in state.outbox if isinstance(item, LogLine)]


def test_the_same_choice_is_built_with_the_changed_fields() -> None:
    state = restarted(h.after(h.SWAPPED), CHANGED, h.A)
    assert h.numbers(state) == (2, 1, 3)
    assert state.live is not None
    assert state.building is not None
    assert (state.live.spec, state.building.spec) == (spec.DEFAULT, CHANGED)
    assert state.building.choice == state.live.choice == h.B
    assert [one.msg for one in log_lines(state)][-1] == (
        "the sources of the settings have changed: building generation 3, users_b inner accounts_b"
    )


def test_a_build_that_is_under_way_starts_again_with_the_changed_fields() -> None:
    state = restarted(h.after(h.SWAP_READS), CHANGED, h.A)
    assert h.numbers(state) == (1, None, 3)
    assert state.building is not None
    assert (state.building.choice, state.building.spec) == (h.B, CHANGED)


def test_the_spec_is_stored_with_the_generation() -> None:
    state = restarted(h.after(h.SWAPPED), CHANGED, h.A)
    again = restarted(state, CHANGED, h.A)
    assert h.numbers(again) == (2, 1, 3), "no further build"
    assert again.building is not None
    assert again.building.spec == CHANGED


def test_unchanged_sources_build_nothing() -> None:
    assert h.numbers(restarted(h.after(h.SWAPPED), spec.DEFAULT, h.A)) == (2, 1, None)


def test_an_added_source_has_the_topic_and_the_join_of_the_settings() -> None:
    settings = MORE.choice("users", "accounts", "pets")
    state = restarted(h.after(h.SWAPPED), MORE, settings)
    assert state.building is not None
    assert state.building.choice == MORE.choice("users_b", "accounts_b", "pets", join="left")
    assert "users_b inner accounts_b does not fit the sources of the settings" in "".join(
        line.msg for line in log_lines(state) if line.level == "WARN"
    )


def test_a_source_that_is_gone_drops_out() -> None:
    state = restarted(h.after(h.SWAPPED), LESS, LESS.choice("users", "pets"))
    assert state.building is not None
    assert state.building.choice == LESS.choice("users_b", "pets", join="inner")


def test_a_choice_that_would_read_a_topic_twice_becomes_that_of_the_settings() -> None:
    settings = LESS.choice("users", "users_b")
    state = restarted(h.after(h.SWAPPED), LESS, settings)
    assert state.building is not None
    assert state.building.choice == settings


def test_messages_complete_the_choice_for_the_sources_of_the_settings() -> None:
    settings = MORE.choice("users", "accounts", "pets")
    state = restarted(h.after(h.LIVE), MORE, settings)
    assert state.building is not None
    number = state.building.number
    state = h.after([h.received(0, {"users_b": h.TOPICS["users_b"]}, usersTopic="users_b")], state)
    assert state.building is not None
    assert state.building.number == number + 1
    assert state.building.choice == MORE.choice("users_b", "accounts", "pets")


def test_a_heartbeat_confirms_a_generation_of_other_sources() -> None:
    """A rollback to the old fields holds until something else is asked for."""
    state = restarted(h.after(h.LIVE), CHANGED, h.A)
    assert state.building is not None
    building = replace(state.building, sources=h.reading(h.A), changelog_id="id")
    state = h.after(
        [CaughtUp(2, 5), h.received(0, action="rollback")], replace(state, building=building)
    )
    assert h.numbers(state) == (1, 2, None)
    state = h.after([h.received(1, joinType="left")], state)
    assert h.numbers(state) == (1, 2, None)


@pytest.mark.parametrize("join", ["inner", "left_outer"])
def test_only_left_takes_several_lookups(join: str) -> None:
    rules = MessageRules(Names("livejoin"), "control", spec=MORE)
    with pytest.raises(InvalidMessage, match=f"joinType: {join} takes exactly two sources, and"):
        parse_message(f'{{"joinType": "{join}"}}'.encode(), rules)
    assert parse_message(b'{"petsTopic": "p"}', rules).topics == {"pets": "p"}
