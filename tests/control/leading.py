"""A process that leads over a real broker, with a pipeline that needs no Spark.

Ledger, control topic, control loop and executor are the real ones, so a test can kill it at any
fail point. `python -m control.leading '{"kafka": …, "name": …, "control": …, "choice": […]}'`
"""

import json
import queue
import signal
import sys
import threading
import time

from fakes import FakePipeline, FakeWorld, topics
from livejoin.control import loop
from livejoin.control.control_topic import ControlTopic
from livejoin.control.executor import Executor, Inbox
from livejoin.control.ledger import Ledger
from livejoin.core import facts
from livejoin.core.control_messages import MessageRules
from livejoin.core.decide import decide
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters


def main(settings: str) -> None:
    """Lead until SIGTERM."""
    given = json.loads(settings)
    kafka, names = Kafka(given["kafka"]), Names(given["name"])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    inbox: Inbox = queue.Queue()
    ledger = Ledger(kafka, names)
    state = ledger.take_over()
    world = FakeWorld(topics(*kafka.topics()))
    for generation in state.generations:  # what earlier processes have made
        world.ids[generation.number] = generation.changelog_id
    executor = Executor(inbox, FakePipeline(world))
    rules = MessageRules(names, given["control"])
    control = ControlTopic(
        Clusters.single(kafka), names, rules, inbox, state.topic_id, state.position
    )
    reader = threading.Thread(target=control.run, args=(stop,))
    reader.start()
    started = facts.LeaderStarted(time.time(), time.monotonic(), DEFAULT.choice(*given["choice"]))
    try:
        loop.run(decide(state, started), inbox, ledger, executor, stop)
    finally:
        stop.set()
        reader.join()
        executor.close()


if __name__ == "__main__":
    main(sys.argv[1])
