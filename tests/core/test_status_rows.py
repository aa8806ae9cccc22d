"""Status and generation rows of a state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from core import histories as h
from livejoin.core import spec
from livejoin.core.facts import (
    BuildProgressed,
    ControlTopicLost,
    Fact,
    RecordsCounted,
    Unrecoverable,
)
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.state import State, row_id
from livejoin.core.status_rows import (
    ended_row,
    generation_rows,
    stale_reason,
    status_row,
    time_left,
)

NOTHING = dict.fromkeys(["usersTopic", "accountsTopic", "joinType", "lastApplied", "generation"])
IS_LIVE = {
    "usersTopic": "users",
    "accountsTopic": "accounts",
    "joinType": "left",
    "lastApplied": "1970-01-01T00:01:44.000Z",
    "generation": 1,
}
BUILDING_1 = "building generation 1, users left accounts"
BUILDING_2 = "building generation 2, users_b inner accounts_b"
AGAIN_2 = "building generation 2, users left accounts"
HALF: list[Fact] = [h.ticked(106.0), BuildProgressed(2, 4, 10)]

STATUS: dict[str, tuple[Sequence[Fact], dict[str, Any]]] = {
    "nothing is known yet": (
        [h.STARTED],
        NOTHING | {"state": "starting", "progress": 0, "message": "starting"},
    ),
    "control messages cannot be read yet, and why": (
        [h.STARTED, ControlTopicLost("no topic control")],
        NOTHING | {"state": "waiting", "progress": 0, "message": "not listening: no topic control"},
    ),
    "the first build says what is asked for": (
        h.FIRST,
        NOTHING | {"state": "building", "progress": 0, "message": BUILDING_1},
    ),
    "nothing is live yet, and why": (
        h.WAITING,
        NOTHING | {"state": "waiting", "progress": 0, "message": f"{BUILDING_1}: no users"},
    ),
    "a first build that failed": (
        h.FIRST_FAILED,
        NOTHING
        | {
            "state": "waiting",
            "progress": 0,
            "message": "the build failed and will be retried soon",
        },
    ),
    "a build shows how far it is, and how long it will take": (
        [*h.FIRST_READS, h.ticked(104.0), BuildProgressed(1, 4, 10)],
        NOTHING
        | {"state": "building", "progress": 40, "message": f"{BUILDING_1}: 40 %, about 6 s left"},
    ),
    "what is live, since when": (
        h.LIVE,
        IS_LIVE | {"state": "live", "progress": 100, "message": "generation 1 is live"},
    ),
    "when it was last confirmed": (
        [*h.LIVE, h.ticked(105.25), h.received_choice(0, h.A)],
        IS_LIVE | {"state": "live", "lastApplied": "1970-01-01T00:01:45.250Z"},
    ),
    "what is live stays shown while the next is built": (
        [*h.SWAP_READS, *HALF],
        IS_LIVE
        | {"state": "building", "progress": 40, "message": f"{BUILDING_2}: 40 %, about 3 s left"},
    ),
    "after a rollback what is live again": (
        [*h.SWAPPED, h.ticked(109.0), h.received(1, action="rollback")],
        IS_LIVE | {"state": "live", "progress": 100, "lastApplied": "1970-01-01T00:01:49.000Z"},
    ),
    "what is live is down, and why": (
        [*h.LIVE, h.died(1)],
        IS_LIVE | {"state": "restarting", "progress": 100, "message": "generation 1 is down: boom"},
    ),
    "what is live is down while the next is built": (
        [*h.SWAPPING, h.died(1)],
        IS_LIVE
        | {
            "state": "building",
            "progress": 0,
            "message": f"generation 1 is down: boom; {BUILDING_2}",
        },
    ),
    "what is live was given up, and why": (
        h.LIVE_DOWN,
        IS_LIVE | {"state": "failed", "progress": 100, "message": "generation 1 is down: boom"},
    ),
    "what is live cannot go on and is built anew": (
        [*h.LIVE, Unrecoverable(1, "another topic")],
        IS_LIVE
        | {
            "state": "building",
            "progress": 0,
            "message": f"generation 1 is down: another topic; {AGAIN_2}",
        },
    ),
    "what is live cannot go on, and to build it anew failed": (
        [*h.LIVE, Unrecoverable(1, "another topic"), Unrecoverable(2, "once more")],
        IS_LIVE
        | {"state": "failed", "progress": 100, "message": "generation 1 is down: another topic"},
    ),
    "a build that is down, and why": (
        [*h.SWAP_READS, h.died(2)],
        IS_LIVE | {"state": "building", "progress": 0, "message": f"{BUILDING_2}: boom"},
    ),
    "control messages cannot be read any more": (
        [*h.LIVE, ControlTopicLost("two partitions")],
        IS_LIVE
        | {"state": "live", "message": "generation 1 is live; not listening: two partitions"},
    ),
}

FULL = RecordsCounted(
    1, {}, ("users_ui", "final_ui"), {"users_ui": 1_700_000_001_234, "final_ui": 10_000}
)
FULL_MESSAGE = (
    "users_ui (since 2023-11-14T22:13:30.000Z) and final_ui (since 1970-01-01T00:00:10.000Z):"
    " only the newest 2000000 rows"
)
STATUS |= {
    "what is live has no room for more rows": (
        [*h.LIVE, FULL],
        {"state": "live", "message": f"generation 1 is live; {FULL_MESSAGE}"},
    ),
    "it has no room, and from when on rows are there is not known": (
        [*h.LIVE, RecordsCounted(1, {}, ("final_ui",))],
        {"message": "generation 1 is live; final_ui: only the newest 2000000 rows"},
    ),
    "it has no room while the next is built": (
        [*h.SWAP_READS, *HALF, FULL],
        {"message": f"{FULL_MESSAGE}; {BUILDING_2}: 40 %, about 3 s left"},
    ),
    "it has no room and is down": (
        [*h.LIVE, FULL, h.died(1)],
        {"message": f"generation 1 is down: boom; {FULL_MESSAGE}"},
    ),
    "only the next one has no room": (
        [*h.SWAP_READS, *HALF, replace(FULL, generation=2)],
        {"message": f"{BUILDING_2}: 40 %, about 3 s left"},
    ),
}


@pytest.mark.parametrize("rule", STATUS)
def test_status(rule: str) -> None:
    history, expected = STATUS[rule]
    row = status_row(h.after(history))
    assert {name: row[name] for name in expected} == expected


def test_the_status_row_has_the_columns_of_its_table() -> None:
    columns = [column.name for column in spec.DEFAULT.tables["orchestrator_status"].columns]
    assert [*status_row(State()), "_id"] == columns


TIMES_LEFT: dict[str, tuple[Sequence[Fact], float | None]] = {
    "nothing is being built": (h.LIVE, None),
    "nothing is read yet": ([*h.SWAP_READS, h.ticked(106.0)], None),
    "no time has passed": ([*h.SWAP_READS, BuildProgressed(2, 4, 10)], None),
    "by the speed so far": ([*h.SWAP_READS, *HALF], 3.0),
    "all is read, and not yet seen": (
        [*h.SWAP_READS, h.ticked(106.0), BuildProgressed(2, 12, 10)],
        0.0,
    ),
}


@pytest.mark.parametrize("rule", TIMES_LEFT)
def test_time_left(rule: str) -> None:
    history, seconds = TIMES_LEFT[rule]
    assert time_left(h.after(history)) == seconds


def test_the_time_left_uses_the_rate_since_the_last_start() -> None:
    durable = from_json(to_json(h.after(h.SWAP_READS)))
    state = h.after([h.started(1000.0, h.A), h.ticked(1002.0), BuildProgressed(2, 4, 10)], durable)
    assert time_left(state) == 3.0


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (h.FIRST, ""),
        (h.LIVE, ""),
        ([*h.LIVE, h.died(1)], "boom"),
        ([*h.LIVE, Unrecoverable(1, "another topic")], "another topic"),
        ([*h.SWAP_READS, h.died(2)], ""),
    ],
    ids=["nothing is live", "live", "down", "unusable", "only a build is down"],
)
def test_rows_are_stale_while_the_live_generation_is_down(
    history: Sequence[Fact], why: str
) -> None:
    assert stale_reason(h.after(history)) == why


def test_each_generation_has_a_row() -> None:
    history = [*h.SWAPPED, h.received(1, joinType="left"), h.died(2)]
    rows = generation_rows(h.after(history))
    assert [(number, row["state"], row["message"]) for number, row in rows.items()] == [
        (2, "live", "boom"),
        (1, "standby", None),
        (3, "building", None),
    ]


def test_columns_of_a_generation_row() -> None:
    assert generation_rows(h.after(h.SWAPPED))[2] == {
        "generation": 2,
        "usersTopic": "users_b",
        "accountsTopic": "accounts_b",
        "joinType": "inner",
        "state": "live",
        "by": "kafka",
        "requestedAt": 104_000,
        "liveAt": 108_000,
        "retiredAt": None,
        "catchUpSeconds": 4.0,
        "message": None,
    }


def test_a_build_has_no_times() -> None:
    row = generation_rows(h.after(h.FIRST))[1]
    assert (row["liveAt"], row["retiredAt"], row["catchUpSeconds"]) == (None, None, None)


ENDED: dict[str, tuple[Sequence[Fact], int, str, int | None, str]] = {
    "retired": (
        [*h.SWAPPED, h.ticked(2000.0)],
        2_000_000,
        "retired",
        104_000,
        "standby_s (900 s) has passed",
    ),
    "failed": (
        [*h.SWAP_READS, Unrecoverable(2, "another topic")],
        104_000,
        "failed",
        None,
        "another topic",
    ),
    "superseded": (
        [*h.SWAPPING, h.received(1, joinType="left")],
        104_000,
        "superseded",
        None,
        "by generation 3",
    ),
}


@pytest.mark.parametrize("rule", ENDED)
def test_the_last_row_of_a_generation(rule: str) -> None:
    history, at, state, live_at, message = ENDED[rule]
    (ended,) = h.new_outbox(history)[2]
    row = ended_row(ended)
    assert (row["retiredAt"], row["state"], row["liveAt"], row["message"]) == (
        at,
        state,
        live_at,
        message,
    )


def test_the_last_row_keeps_its_counts() -> None:
    (ended,) = h.new_outbox(
        [*h.SWAPPED, RecordsCounted(1, {"read": 7, "rows": 3}), h.ticked(1008.0)]
    )[2]
    row = ended_row(ended)
    assert (row["generation"], row["read"], row["rows"]) == (1, 7, 3)


def test_row_ids_sort_numerically_as_text() -> None:
    assert row_id(9) < row_id(10) < row_id(10**11)


def test_generation_rows_use_the_columns_of_their_table() -> None:
    columns = [column.name for column in spec.DEFAULT.tables["generations"].columns]
    row = generation_rows(h.after(h.LIVE))[1]
    assert [name for name in columns if name in row] == list(row)
