"""The control loop: take a fact, decide, write the state, carry out its plan.

The plan is the same after every decision and every restart.
"""

import queue
import threading
import time
from typing import Protocol

import structlog

from livejoin.control.executor import Inbox
from livejoin.core import facts
from livejoin.core.decide import decide
from livejoin.core.plan import Step, plan
from livejoin.core.state import State
from livejoin.errors import KafkaUnavailable

log = structlog.get_logger()

_TICK_S = 0.5
_RETRY_S = 1.0


class LedgerWriter(Protocol):
    """The ledger as the loop uses it."""

    def write(self, state: State) -> State:
        """Write all changes and the outbox in one transaction."""


class StepExecutor(Protocol):
    """The executor as the loop uses it."""

    def carry_out(self, step: Step) -> None:
        """Schedule one step."""


def run(
    state: State, inbox: Inbox, ledger: LedgerWriter, executor: StepExecutor, stop: threading.Event
) -> None:
    """Lead from this state until stopped."""
    state = _write_and_execute(state, ledger, executor, stop)
    while not stop.is_set():
        try:
            fact: facts.Fact = inbox.get(timeout=_TICK_S)
        except queue.Empty:
            fact = _tick()
        state = decide(decide(state, _tick()), fact)
        state = _write_and_execute(state, ledger, executor, stop)


def _tick() -> facts.ClockTicked:
    return facts.ClockTicked(time.time(), time.monotonic())


def _write_and_execute(
    state: State, ledger: LedgerWriter, executor: StepExecutor, stop: threading.Event
) -> State:
    """Write the state, then carry out its plan; retry while Kafka is unreachable."""
    while not stop.is_set():
        try:
            state = ledger.write(state)  # before the steps: after a crash they are repeated
        except KafkaUnavailable as error:
            log.warning("cannot write the ledger, retrying", why=str(error))
            stop.wait(_RETRY_S)
        else:
            for step in plan(state):
                executor.carry_out(step)
            break
    return state
