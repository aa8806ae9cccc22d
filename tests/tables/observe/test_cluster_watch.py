"""A cluster that does not answer is named by its role, until it answers again."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import ROLES
from livejoin.tables.observe import cluster_watch
from livejoin.tables.observe.cluster_watch import ClusterWatch
from livejoin.tables.observe.liveness import Liveness
from rig.brokers import Broker, lasting_port
from rig.running import until

NAMED_S = 15


def test_it_is_named_while_it_is_gone_and_while_it_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_watch, "_CHECK_S", 0.5)
    broker, liveness, stop = Broker(tmp_path, lasting_port()), Liveness(), threading.Event()
    servers = {"bootstrap.servers": f"127.0.0.1:{broker.port}"}
    cluster = Kafka(servers, section="kafka_control", role=ROLES["kafka_control"])

    def post(report: Callable[[], None]) -> None:
        report()

    watching = threading.Thread(target=ClusterWatch(cluster, liveness, post).run, args=(stop,))
    watching.start()
    place = f"Kafka at 127.0.0.1:{broker.port} (cluster of the control topic) cannot be reached"
    is_named = lambda: place in liveness.clusters.get("kafka_control", "")  # noqa: E731 - reads as one
    is_well = lambda: liveness.clusters.get("kafka_control") == ""  # noqa: E731
    try:
        until(is_named, "it is named before it is there", NAMED_S)
        broker.start()
        until(is_well, "it answers", NAMED_S)
        os.kill(broker.pid, signal.SIGSTOP)
        until(is_named, "it is named while it stands still", NAMED_S)
        os.kill(broker.pid, signal.SIGCONT)
        until(is_well, "it answers again", NAMED_S)
        broker.kill()
        until(is_named, "it is named after it was killed", NAMED_S)
        assert liveness.own_trouble == ""
        assert "(after" not in liveness.clusters["kafka_control"]  # the same text each time
    finally:
        stop.set()
        watching.join()
        broker.close()
