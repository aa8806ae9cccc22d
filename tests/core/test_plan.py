from dataclasses import replace
from typing import Any

import pytest

from livejoin.core.generation import Generation, Line, Reading, State
from livejoin.core.plan import Resolve, Run, Show, Step, Tell, plan, status
from livejoin.core.spec import TABLES, Choice

REQUESTED = Generation(2, Choice("users_b", "accounts_b", "inner"), requested_at=0.0)
BUILDING = replace(REQUESTED, sources={"users": Reading("users_b", "id", {0: 0}, {0: 9})})
LIVE = Generation(
    1,
    Choice("users", "accounts"),
    requested_at=0.0,
    sources={"users": Reading("users", "id", {0: 0}, {0: 9})},
    ready_at=10,
    live_at=1_700_000_000.25,
)
LINES = (Line(1, 0.0, "INFO", "ready"), Line(2, 0.0, "WARN", "waiting"))
CHOSEN = {"usersTopic": "users", "accountsTopic": "accounts", "joinType": "left"}
NOTHING = dict.fromkeys([*CHOSEN, "lastApplied", "generation"])
APPLIED = {"lastApplied": "2023-11-14T22:13:20.250Z", "generation": 1}


def _steps_besides_show(state: State) -> list[Step]:
    return [step for step in plan(state) if not isinstance(step, Show)]


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (State(), [Run(())]),
        (State(untold=LINES), [Tell(LINES), Run(())]),
        (State(building=REQUESTED), [Resolve(REQUESTED), Run(())]),
        (State(building=REQUESTED, now=1.0, try_again_at=2.0), [Run(())]),
        (State(building=REQUESTED, now=2.0, try_again_at=2.0), [Resolve(REQUESTED), Run(())]),
        (State(building=BUILDING), [Run((BUILDING,))]),
        (State(live=LIVE), [Run((LIVE,))]),
        (State(live=LIVE, building=REQUESTED), [Resolve(REQUESTED), Run((LIVE,))]),
        (State(live=LIVE, now=1.0, try_again_at=2.0), [Run(())]),
        (State(live=LIVE, broken=True), [Run(())]),
    ],
    ids=[
        "nothing wanted, nothing runs",
        "what is untold is told first",
        "what is asked for is resolved",
        "not before the next try",
        "at the time of the next try",
        "what is resolved runs",
        "what is live runs",
        "what is live runs while the next is resolved",
        "a query that died is stopped until the next try",
        "a query that was given up is stopped",
    ],
)
def test_steps(state: State, steps: list[Step]) -> None:
    assert _steps_besides_show(state) == steps


def test_every_plan_shows_the_status() -> None:
    state = State(live=LIVE)
    assert [step for step in plan(state) if isinstance(step, Show)] == [Show(status(state))]


@pytest.mark.parametrize(
    ("state", "row"),
    [
        (
            State(),
            NOTHING | {"state": "starting", "message": "starting"},
        ),
        (
            State(building=REQUESTED),
            NOTHING
            | {"state": "building", "progress": 0}
            | {"message": "building generation 2, users_b inner accounts_b"},
        ),
        (
            State(building=REQUESTED, trouble="no users_b"),
            NOTHING | {"state": "waiting", "progress": 0, "message": "no users_b"},
        ),
        (
            State(building=BUILDING, progress=42),
            NOTHING | {"state": "building", "progress": 42},
        ),
        (
            State(live=LIVE),
            CHOSEN
            | APPLIED
            | {"state": "live", "progress": 100, "message": "generation 1 is live"},
        ),
        (
            State(live=LIVE, building=BUILDING, progress=42),
            CHOSEN
            | APPLIED
            | {"state": "building", "progress": 42}
            | {"message": "building generation 2, users_b inner accounts_b"},
        ),
        (
            State(live=LIVE, trouble="boom"),
            CHOSEN | APPLIED | {"state": "restarting", "progress": 100, "message": "boom"},
        ),
        (
            State(live=LIVE, trouble="boom", broken=True),
            CHOSEN | APPLIED | {"state": "failed", "message": "boom"},
        ),
        (
            State(building=BUILDING, trouble="boom", broken=True),
            NOTHING | {"state": "failed", "message": "boom"},
        ),
    ],
    ids=[
        "nothing is known yet",
        "the first build says what is asked for",
        "nothing is live yet, and why",
        "a build shows how far it is",
        "what is live, since when",
        "what is live stays shown while the next is built",
        "what is live is down, and why",
        "what is live was given up, and why",
        "a build was given up, and why",
    ],
)
def test_status(state: State, row: dict[str, Any]) -> None:
    shown = status(state)
    assert {name: shown[name] for name in row} == row


def test_the_status_row_has_the_columns_of_its_table() -> None:
    columns = [column.name for column in TABLES["orchestrator_status"].columns]
    assert [*status(State()), "_id"] == columns
