"""Seeds by the thousand: whatever happens, in whatever order, what must hold does.

`LIVEJOIN_SEEDS=10000 pytest tests/core/test_simulation.py` is the long run.
"""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from core import simulation
from core.simulation import FACT_NAMES, FACTS, KINDS, Decide, InvariantViolated, Simulation, digest
from livejoin.core.decide import decide
from livejoin.core.facts import (
    CaughtUp,
    ClockTicked,
    Fact,
    HistoryReplayed,
    LeaderStarted,
    MessageReceived,
    SourcesResolved,
)
from livejoin.core.state import LogLine, Reply, State

SEEDS = int(os.environ.get("LIVEJOIN_SEEDS", "2000"))
ENOUGH = 100  # times that every fact meets every kind of state, over 2,000 seeds
TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(SEEDS)  # a second for each: 15 ms on 2 cores
def test_whatever_happens_what_must_hold_does() -> None:
    cells: Counter[tuple[str, str]] = Counter()
    for seed in range(SEEDS):
        one = Simulation(seed)
        try:
            facts = sum(1 for _ in one.run())
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert facts == FACTS
        cells.update(one.cells)
    wanted = ENOUGH * min(SEEDS, 2000) // 2000
    seldom = {
        f"{fact} × {kind}": cells[fact, kind]
        for fact in FACT_NAMES
        for kind in KINDS
        if cells[fact, kind] < wanted
    }
    assert seldom == {}


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    # sets and dictionaries are ordered otherwise where text is hashed otherwise
    code = "from core.simulation import digest; print(digest(10))"
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert found[0].strip() == digest(10) != digest(9)


def _lost_position(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    return replace(after, position=0) if isinstance(fact, ClockTicked) else after


def _no_reply(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    told = tuple(one for one in after.outbox if not isinstance(one, Reply))
    return replace(after, outbox=told) if isinstance(fact, MessageReceived) else after


def _lost_line(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    if isinstance(fact, SourcesResolved) and after.outbox:
        return replace(
            after, outbox=tuple(one for one in after.outbox if not isinstance(one, LogLine))
        )
    return after


def _number_again(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    grown = after.last_number > state.last_number and state.last_number > 0
    if not grown or after.building is None:
        return after
    again = replace(after.building, number=state.last_number)
    return replace(after, building=again, last_number=state.last_number)


def _live_too_early(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    if isinstance(fact, CaughtUp) and after.live is not state.live and after.live:
        return replace(after, live=replace(after.live, ready_at=None))
    return after


def _garbage_cancels(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    invalid = isinstance(fact, MessageReceived) and fact.request is None
    return replace(after, building=None) if invalid and after is not state else after


def _twice(state: State, fact: Fact) -> State:
    if isinstance(fact, MessageReceived) and fact.origin.offset < state.position:
        position = fact.origin.offset
        return decide(replace(state, position=position), fact)
    return decide(state, fact)


def _forgets_standby(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    return replace(after, standby=None) if isinstance(fact, HistoryReplayed) else after


def _by_the_wall(state: State, fact: Fact) -> State:
    """Durations are measured by the clock that people look at."""
    return decide(
        state,
        replace(fact, monotonic=fact.at) if isinstance(fact, ClockTicked | LeaderStarted) else fact,
    )


BROKEN: dict[str, tuple[Decide, str]] = {
    "the position is lost": (_lost_position, "a step back"),
    "a message is not answered": (_no_reply, "not answered once"),
    "a line is lost": (_lost_line, "missing"),
    "a number is given again": (_number_again, "twice|back|gone"),
    "live before it is complete": (_live_too_early, "not complete"),
    "an invalid message ends a build": (_garbage_cancels, "gone|health|without effect"),
    "a message is decided twice": (_twice, "decided twice|step back"),
    "durations are measured by the clock on the wall": (_by_the_wall, "early or late"),
    "a generation is lost in silence": (_forgets_standby, "gone|health"),
}


def _first_failure(broken: Decide) -> str:
    for seed in range(30):
        try:
            list(Simulation(seed, broken).run())
        except InvariantViolated as error:
            return str(error)
    return "nothing"


@pytest.mark.parametrize("rule", BROKEN)
def test_the_simulation_notices_when(rule: str) -> None:
    broken, why = BROKEN[rule]
    found = _first_failure(broken)
    assert any(part in found for part in why.split("|")), found


def test_a_kind_has_one_name() -> None:
    assert len(set(KINDS)) == len(KINDS)
    seen = {simulation.kind(State())}
    for seed in range(20):
        one = Simulation(seed)
        seen.update(simulation.kind(one.state) for _ in islice(one.run(), FACTS))
    assert seen == set(KINDS)
