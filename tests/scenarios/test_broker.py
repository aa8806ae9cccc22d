"""The embedded broker, and livejoin during an outage of its broker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker
from rig import oracle
from rig.produce import Producers
from rig.running import alive, descendants, is_java, running, until

TOPICS = {"users": "outage.users", "accounts": "outage.accounts"}
HOLD = """
import sys, time
from pathlib import Path
from livejoin.runtime import broker
with broker.embedded_broker(Path(sys.argv[1])) as kafka:
    kafka.create_topic("kept")
    print(kafka.address, flush=True)
    sys.stdin.read()
"""


def test_the_broker_ends_with_its_parent_process_and_keeps_its_data(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith(b"127.0.0.1:")
    (jvm,) = [pid for pid in descendants(parent.pid) if is_java(pid)]
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    until(lambda: not alive(jvm), "no orphan JVM")
    with broker.embedded_broker(tmp_path) as restarted:
        assert set(restarted.describe(["kept", "other"])) == {"kept"}


def test_an_outage_is_reported_and_survived(tmp_path: Path) -> None:
    port = broker.free_port()
    first = Kafka({"bootstrap.servers": f"127.0.0.1:{port}"})
    with broker.embedded_broker(tmp_path / "broker", port):
        for topic in TOPICS.values():
            first.create_topic(topic)
        producers = Producers(first, TOPICS)
        producers.send("users", {"userId": "a", "name": "before"})
        producers.flush()
        context = running(first, tmp_path / "run", name="outage", topics=TOPICS)
        livejoin = context.__enter__()
        livejoin.wait_live()
    try:
        until(lambda: livejoin.request("api/v1/status")["stale"], "the outage is reported")
        assert "cannot be reached" in livejoin.request("api/v1/status")["stale"]
        assert [row["name"] for row in livejoin.table("final_ui").values()] == ["before"]
        with broker.embedded_broker(tmp_path / "broker", port):
            producers.send("users", {"userId": "b", "name": "after"})
            producers.flush()
            until(lambda: livejoin.records_read() == producers.count, "the new record")
            until(
                lambda: not livejoin.request("api/v1/status")["stale"], "the recovery is reported"
            )
            expected = oracle.expected(producers.acknowledged).tables["final_ui"]
            assert livejoin.table("final_ui").keys() == expected.keys()
            assert livejoin.stop() == 0
    finally:
        context.__exit__(None, None, None)
