"""Control requests as steps: the calls they make, and their results."""

from typing import Any

import pytest

from livejoin.client import requests
from livejoin.client.requests import Call, Deadline, Outcome, Pause
from livejoin.errors import NotLive, TookTooLong, Unreachable

MESSAGE = {"joinType": "inner"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def run_steps(
    responses: list[dict[str, Any]], limit_s: float | None = 10
) -> tuple[Outcome, list[str]]:
    """Run the steps with these responses; the last one is repeated."""
    clock, paths = Clock(), []
    limit = None if limit_s is None else Deadline.after(limit_s, clock)
    steps = requests.send_control("api/v1/control", MESSAGE, limit)
    answer: dict[str, Any] | None = None
    try:
        while True:
            step = next(steps) if answer is None else steps.send(answer)
            if isinstance(step, Pause):
                clock.now += step.seconds
                answer = {}
            else:
                assert isinstance(step, Call)
                paths.append(step.path.removeprefix("api/v1/"))
                answer = responses.pop(0) if len(responses) > 1 else responses[0]
    except StopIteration as done:
        return done.value, paths


def response(outcome: str, generation: int | None = 2, reason: str | None = None) -> dict[str, Any]:
    return {
        "partition": 2,
        "offset": 7,
        "outcome": outcome,
        "generation": generation,
        "reason": reason,
    }


def generations(state: str, message: str = "") -> dict[str, Any]:
    return {"generations": [{"generation": 2, "state": state, "message": message}]}


def test_warnings_are_returned_with_the_outcome() -> None:
    warned = {**response("accepted"), "warnings": ['unknown field "colour"']}
    outcome, _ = run_steps([warned, generations("live")])
    assert outcome.outcome == "live"
    assert outcome.warnings == ('unknown field "colour"',)


def test_without_a_deadline_the_first_answer_is_returned() -> None:
    outcome, paths = run_steps([response("accepted")], None)
    assert outcome == Outcome("accepted", None, 2, 7, 2)
    assert paths == ["control"]


def test_it_waits_until_the_generation_is_live() -> None:
    outcome, paths = run_steps(
        [
            response("accepted"),
            generations("building"),
            generations("caught-up"),
            generations("live"),
        ]
    )
    assert (outcome.outcome, outcome.generation) == ("live", 2)
    assert paths == ["control", "generations", "generations", "generations"]


def test_it_does_not_wait_if_nothing_changes() -> None:
    outcome, paths = run_steps([response("live", 1, "no change")])
    assert (outcome.outcome, outcome.reason) == ("live", "no change")
    assert paths == ["control"]


@pytest.mark.parametrize("end", ["failed", "superseded", "cancelled"])
def test_a_generation_that_does_not_go_live_is_an_error(end: str) -> None:
    with pytest.raises(NotLive, match=f"{end}, no such topic"):
        run_steps(
            [response("accepted"), generations("building"), generations(end, "no such topic")]
        )


def test_a_late_decision_is_found_by_partition_and_offset() -> None:
    rows = [{"partition": 1, "offset": 7, "outcome": "live", "reason": ""}]
    later = [*rows, {"partition": 2, "offset": 7, "outcome": "building", "reason": ""}]
    last = [*rows, {"partition": 2, "offset": 7, "outcome": "live", "reason": "done"}]
    outcome, _ = run_steps(
        [
            response("written", None),
            {"rows": rows},
            {"rows": later},
            {"rows": last},
            {"generation": 3},
        ]
    )
    assert outcome == Outcome("live", "done", 3, 7, 2)


def test_a_late_rejection_is_an_error() -> None:
    row = {"partition": 2, "offset": 7, "outcome": "rejected", "reason": "because"}
    with pytest.raises(NotLive, match="control message 2/7 is not live: rejected, because"):
        run_steps([response("written", None), {"rows": [row]}, {"generation": 1}])


@pytest.mark.parametrize(
    ("responses", "what"),
    [
        ([response("accepted"), generations("building")], "generation 2 is still being built"),
        ([response("written", None), {"rows": []}], "control message 2/7 is not decided yet"),
    ],
    ids=["built", "decided"],
)
def test_waiting_times_out(responses: list[dict[str, Any]], what: str) -> None:
    with pytest.raises(TookTooLong, match=f"{what} after 10 s"):
        run_steps(responses)


@pytest.mark.parametrize("answer", [{}, {"tables": 5}, {"tables": [5]}, {"tables": [{}]}], ids=str)
def test_a_server_without_tables_is_not_livejoin(answer: dict[str, Any]) -> None:
    with pytest.raises(Unreachable):
        requests.table_names(answer)
