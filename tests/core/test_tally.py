"""Counters for the metrics: outcomes of swaps and restarts of queries."""

from collections.abc import Sequence

import pytest

from core import histories as h
from livejoin.core.facts import Fact, QueryDied, Unrecoverable
from livejoin.core.ledger_format import from_json, to_json

BROKER_DOWN = QueryDied(1, "no broker", counts_as_failure=False)


@pytest.mark.parametrize(
    ("history", "tally"),
    [
        (h.LIVE, {"live": 1}),
        (h.SWAPPED, {"live": 2}),
        ([*h.SWAPPING, h.received_choice(1, h.C)], {"live": 1, "superseded": 1}),
        ([*h.SWAPPING, h.received_choice(1, h.A)], {"live": 1, "cancelled": 1}),
        ([*h.SWAPPED, h.received(1, action="rollback")], {"live": 2, "rolled-back": 1}),
        (
            [*h.SWAPPED, h.received_choice(1, h.C), h.received(2, action="rollback")],
            {"live": 2, "cancelled": 1, "rolled-back": 1},
        ),
        ([*h.LIVE, h.received_raw(0, b"[]")], {"live": 1, "rejected": 1}),
        ([*h.LIVE, h.received(0, action="rollback")], {"live": 1, "rejected": 1}),
        (h.FIRST_FAILED, {"restarted": 5, "failed": 1}),
        ([*h.SWAPPING, Unrecoverable(2, "gone")], {"live": 1, "failed": 1}),
        ([*h.LIVE, h.died(1)], {"live": 1, "restarted": 1}),
        (h.LIVE_DOWN, {"live": 1, "restarted": 5}),
        (
            [*h.LIVE, BROKER_DOWN, BROKER_DOWN, BROKER_DOWN],
            {"live": 1, "restarted": 1},
        ),  # waiting is counted once
    ],
)
def test_each_swap_outcome_and_each_restart_is_counted_once(
    history: Sequence[Fact], tally: dict[str, int]
) -> None:
    assert h.after(history).tally == tally


def test_confirmations_and_repeats_are_not_counted() -> None:
    before = h.after([*h.LIVE, h.received_choice(0, h.A, id="x")])
    again = h.after([h.received_choice(1, h.A, id="x")], before)
    assert again.tally == h.after(h.LIVE).tally


def test_a_ledger_without_counters_starts_with_none() -> None:
    written = to_json(h.after(h.SWAPPED))
    del written["tally"]
    assert from_json(written).tally == {}
