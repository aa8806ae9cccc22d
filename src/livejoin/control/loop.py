"""The control loop: fact, decide, write down, carry out.

The same plan follows every decision and every restart.
"""

import queue
import threading
import time

from livejoin.control.executor import Executor, Inbox
from livejoin.control.ledger import Ledger
from livejoin.core import facts
from livejoin.core.decide import decide
from livejoin.core.generation import State
from livejoin.core.plan import plan
from livejoin.core.spec import Choice

_TICK_S = 0.5


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
        state = _step(state, fact, ledger, executor)


def _step(state: State, fact: facts.Fact, ledger: Ledger, executor: Executor) -> State:
    state = decide(decide(state, facts.Ticked(time.time())), fact)
    ledger.write(state)  # before the steps: a crash from here on is repaired by the next plan
    for step in plan(state):
        executor.carry_out(step)
    return state
