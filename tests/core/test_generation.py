import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.changelog import TEXT
from livejoin.core.generation import Generation, Line, Reading, State, from_json, to_json
from livejoin.core.spec import Choice, Join

COUNTS = st.integers(0, 2**62)
TIMES = st.floats(0, 4e9)
OFFSETS = st.dictionaries(st.integers(0, 300), COUNTS, max_size=4)
JOINS: st.SearchStrategy[Join] = st.sampled_from(["left", "inner", "left_outer"])
READINGS = st.builds(Reading, TEXT, TEXT, OFFSETS, OFFSETS)
GENERATIONS = st.builds(
    Generation,
    number=COUNTS,
    choice=st.builds(Choice, TEXT, TEXT, JOINS),
    requested_at=TIMES,
    sources=st.dictionaries(st.sampled_from(["users", "accounts"]), READINGS),
    ready_at=st.none() | COUNTS,
    live_at=st.none() | TIMES,
)
LINES = st.builds(Line, COUNTS, TIMES, st.sampled_from(["INFO", "WARN", "ERROR"]), TEXT)
DURABLE = st.builds(
    State,
    last_number=COUNTS,
    live=st.none() | GENERATIONS,
    building=st.none() | GENERATIONS,
    lines=COUNTS,
    untold=st.lists(LINES, max_size=3).map(tuple),
)


@given(DURABLE)
def test_what_is_written_to_the_ledger_is_read_back(state: State) -> None:
    assert from_json(json.loads(json.dumps(to_json(state)))) == state


@given(DURABLE)
def test_what_the_next_process_finds_out_by_itself_is_not_written(state: State) -> None:
    later = replace(
        state, now=9.0, progress=50, trouble="boom", restarts=3, try_again_at=11.0, broken=True
    )
    assert to_json(later) == to_json(state)


UNRESOLVED = Generation(2, Choice("users", "accounts"), requested_at=0.0)
RESOLVED = replace(UNRESOLVED, sources={"users": Reading("users", "id", {0: 0}, {0: 9})})
LIVE = replace(RESOLVED, number=1, ready_at=10, live_at=5.0)


@pytest.mark.parametrize(
    ("state", "running"),
    [
        (State(), ()),
        (State(building=UNRESOLVED), ()),
        (State(building=RESOLVED), (RESOLVED,)),
        (State(live=LIVE), (LIVE,)),
        (State(live=LIVE, building=UNRESOLVED), (LIVE,)),
        (State(live=LIVE, building=RESOLVED), (LIVE, RESOLVED)),
        (State(live=LIVE, now=1.0, try_again_at=2.0), ()),
        (State(live=LIVE, now=2.0, try_again_at=2.0), (LIVE,)),
        (State(live=LIVE, broken=True), ()),
    ],
    ids=[
        "nothing is there",
        "it is not known where to read",
        "a build runs",
        "what is live runs",
        "what is live runs while the next is not resolved",
        "a build runs beside what is live",
        "not before the next try",
        "at the time of the next try",
        "not after giving up",
    ],
)
def test_which_queries_should_run(state: State, running: tuple[Generation, ...]) -> None:
    assert state.running() == running
