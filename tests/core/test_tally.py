"""What the metrics count: how often swaps came to what, and how often queries were restarted."""

from collections.abc import Sequence

import pytest

from core.histories import (
    FIRST_FAILED,
    LIVE,
    LIVE_DOWN,
    SWAPPED,
    SWAPPING,
    A,
    C,
    after,
    ask,
    ask_for,
    died,
    said_by,
)
from livejoin.core.facts import Died, Fact, Spoilt
from livejoin.core.state import from_json, to_json

AWAY = Died(1, "no broker", counts=False)


@pytest.mark.parametrize(
    ("history", "tally"),
    [
        (LIVE, {"live": 1}),
        (SWAPPED, {"live": 2}),
        ([*SWAPPING, ask_for(1, C)], {"live": 1, "superseded": 1}),
        ([*SWAPPING, ask_for(1, A)], {"live": 1, "cancelled": 1}),
        ([*SWAPPED, ask(1, action="rollback")], {"live": 2, "rolled-back": 1}),
        (
            [*SWAPPED, ask_for(1, C), ask(2, action="rollback")],
            {"live": 2, "cancelled": 1, "rolled-back": 1},
        ),
        ([*LIVE, said_by(0, b"[]")], {"live": 1, "rejected": 1}),
        ([*LIVE, ask(0, action="rollback")], {"live": 1, "rejected": 1}),
        (FIRST_FAILED, {"restarted": 5, "failed": 1}),
        ([*SWAPPING, Spoilt(2, "gone")], {"live": 1, "failed": 1}),
        ([*LIVE, died(1)], {"live": 1, "restarted": 1}),
        (LIVE_DOWN, {"live": 1, "restarted": 5}),
        (
            [*LIVE, AWAY, AWAY, AWAY],
            {"live": 1, "restarted": 1},
        ),  # it waits, which is said once
    ],
)
def test_each_end_of_a_swap_and_each_restart_counts_once(
    history: Sequence[Fact], tally: dict[str, int]
) -> None:
    assert after(history).tally == tally


def test_a_heartbeat_and_a_repeat_count_for_nothing() -> None:
    before = after([*LIVE, ask_for(0, A, id="x")])
    again = after([ask_for(1, A, id="x")], before)
    assert again.tally == after(LIVE).tally


def test_a_ledger_of_an_earlier_version_starts_at_nothing() -> None:
    written = to_json(after(SWAPPED))
    del written["tally"]
    assert from_json(written).tally == {}
