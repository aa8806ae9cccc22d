"""The control loop: fact, decide, write down, carry out.

The same plan follows every decision and every restart.
"""

import queue
import threading
import time

import structlog

from livejoin.control.executor import Executor, Inbox
from livejoin.control.ledger import Ledger
from livejoin.core import facts
from livejoin.core.decide import decide
from livejoin.core.generation import State
from livejoin.core.plan import plan
from livejoin.core.spec import Choice
from livejoin.errors import KafkaUnavailable

log = structlog.get_logger()

_TICK_S = 0.5
_AGAIN_S = 1.0


def run(
    inbox: Inbox, ledger: Ledger, executor: Executor, choice: Choice, stop: threading.Event
) -> None:
    """Lead until told to stop."""
    state = ledger.last()
    inbox.put(facts.Started(time.time(), choice))
    while not stop.is_set():
        try:
            fact: facts.Fact = inbox.get(timeout=_TICK_S)
        except queue.Empty:
            fact = facts.Ticked(time.time())
        state = decide(decide(state, facts.Ticked(time.time())), fact)
        _make_true(state, ledger, executor, stop)


def _make_true(state: State, ledger: Ledger, executor: Executor, stop: threading.Event) -> None:
    """Write the state down and carry out its plan; all of it again while Kafka is out of reach."""
    while not stop.is_set():
        try:
            ledger.write(state)  # before the steps: a crash from here on is repaired by the plan
            for step in plan(state):
                executor.carry_out(step)
        except KafkaUnavailable as error:
            log.warning("cannot write the ledger, trying again", why=str(error))
            stop.wait(_AGAIN_S)
        else:
            return
