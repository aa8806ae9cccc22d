"""The control loop: fact, decide, write down, carry out.

The same plan follows every decision and every restart.
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
    """Where states are written down."""

    def write(self, state: State) -> State:
        """Write what changed and tell what is untold, all or nothing."""


class StepExecutor(Protocol):
    """What makes plans true."""

    def carry_out(self, step: Step) -> None:
        """Have one step done, soon."""


def run(
    state: State, inbox: Inbox, ledger: LedgerWriter, executor: StepExecutor, stop: threading.Event
) -> None:
    """Lead from a state on, until told to stop."""
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
    """Write the state down and carry out its plan; again while Kafka is out of reach."""
    while not stop.is_set():
        try:
            state = ledger.write(state)  # before the steps: a crash from here on is repaired
        except KafkaUnavailable as error:
            log.warning("cannot write the ledger, trying again", why=str(error))
            stop.wait(_RETRY_S)
        else:
            for step in plan(state):
                executor.carry_out(step)
            break
    return state
