"""The invariants hold in thousands of random histories.

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
MIN_OCCURRENCES = 100  # occurrences of each fact in each kind of state, over 2,000 seeds
TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(SEEDS)  # one second per seed, which takes 15 ms on 2 cores
def test_invariants_hold_for_every_seed() -> None:
    cells: Counter[tuple[str, str]] = Counter()
    for seed in range(SEEDS):
        run = Simulation(seed)
        try:
            facts = sum(1 for _ in run.run())
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        assert facts == FACTS
        cells.update(run.cells)
    minimum = MIN_OCCURRENCES * min(SEEDS, 2000) // 2000
    rare = {
        f"{fact} × {kind}": cells[fact, kind]
        for fact in FACT_NAMES
        for kind in KINDS
        if cells[fact, kind] < minimum
    }
    assert rare == {}


def test_the_same_seed_gives_the_same_trace_in_every_process() -> None:
    # the order of a set of strings depends on the hash seed
    code = "from core.simulation import digest; print(digest(10))"
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert digests[0].strip() == digest(10) != digest(9)


def _lost_position(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    return replace(after, position={}) if isinstance(fact, ClockTicked) else after


def _no_reply(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    items = tuple(item for item in after.outbox if not isinstance(item, Reply))
    return replace(after, outbox=items) if isinstance(fact, MessageReceived) else after


def _lost_line(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    if isinstance(fact, SourcesResolved) and after.outbox:
        return replace(
            after, outbox=tuple(item for item in after.outbox if not isinstance(item, LogLine))
        )
    return after


def _number_reused(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    is_new = after.last_number > state.last_number and state.last_number > 0
    if not is_new or after.building is None:
        return after
    reused = replace(after.building, number=state.last_number)
    return replace(after, building=reused, last_number=state.last_number)


def _live_too_early(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    if isinstance(fact, CaughtUp) and after.live is not state.live and after.live:
        return replace(after, live=replace(after.live, ready_at=None))
    return after


def _garbage_cancels(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    invalid = isinstance(fact, MessageReceived) and fact.request is None
    return replace(after, building=None) if invalid and after is not state else after


def _decided_twice(state: State, fact: Fact) -> State:
    if isinstance(fact, MessageReceived):
        position = {**state.position, fact.origin.partition: fact.origin.offset}
        return decide(replace(state, position=position), fact)
    return decide(state, fact)


def _one_position(state: State, fact: Fact) -> State:
    """The furthest partition counts for all of them."""
    furthest = max(state.position.values(), default=0)
    old = isinstance(fact, MessageReceived) and fact.origin.offset < furthest
    return state if old else decide(state, fact)


def _moves_all(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    if not isinstance(fact, MessageReceived) or after is state:
        return after
    return replace(after, position=dict.fromkeys(after.position, fact.origin.offset + 1))


def _by_offset(state: State, fact: Fact) -> State:
    """Rows of several partitions get the same id."""
    after = decide(state, fact)
    if not isinstance(fact, MessageReceived) or after is state:
        return after
    return replace(after, read_order=fact.origin.offset)


def _forgets_standby(state: State, fact: Fact) -> State:
    after = decide(state, fact)
    return replace(after, standby=None) if isinstance(fact, HistoryReplayed) else after


def _wall_clock_durations(state: State, fact: Fact) -> State:
    """Durations are measured by the wall clock."""
    return decide(
        state,
        replace(fact, monotonic=fact.at) if isinstance(fact, ClockTicked | LeaderStarted) else fact,
    )


BROKEN: dict[str, tuple[Decide, str]] = {
    "the position is lost": (_lost_position, "a step back"),
    "a message is not answered": (_no_reply, "not answered exactly once"),
    "a line is lost": (_lost_line, "missing"),
    "a number is reused": (_number_reused, "twice|back|gone"),
    "live before it is complete": (_live_too_early, "not complete"),
    "an invalid message ends a build": (_garbage_cancels, "gone|health|without effect"),
    "a message is decided twice": (_decided_twice, "decided twice|step back"),
    "one position counts for all partitions": (_one_position, "passed over"),
    "a message moves the position of all partitions": (_moves_all, "position|step back"),
    "the order of reading is that of the offsets": (_by_offset, "order"),
    "durations are measured by the wall clock": (_wall_clock_durations, "early or late"),
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
def test_the_simulation_detects(rule: str) -> None:
    broken, pattern = BROKEN[rule]
    failure = _first_failure(broken)
    assert any(part in failure for part in pattern.split("|")), failure


def test_kinds_are_unique_and_all_reached() -> None:
    assert len(set(KINDS)) == len(KINDS)
    seen = {simulation.kind(State())}
    for seed in range(20):
        run = Simulation(seed)
        seen.update(simulation.kind(run.state) for _ in islice(run.run(), FACTS))
    assert seen == set(KINDS)
