"""No process of livejoin can be reached from another machine by default."""

import json
import os
import signal
import subprocess
from pathlib import Path

from livejoin.kafka.cluster import Kafka
from livejoin.runtime.broker import free_port
from rig.listening import Listening, listening
from rig.running import LIVEJOIN, START_S, descendants, is_java, until
from rig.world import run_world


def _reachable(pids: list[int]) -> list[Listening]:
    return [one for one in listening(pids) if not one.loopback]


def test_run_its_spark_and_the_broker_listen_on_loopback_only(kafka: Kafka, tmp_path: Path) -> None:
    spark = {"conf": {"spark.ui.enabled": "true"}}
    with run_world(kafka, tmp_path, "loopback", spark=spark) as world:
        pids = [os.getpid(), *descendants(os.getpid())]
        (jvm,) = world.live.jvms()
        own = listening([jvm])
        # the Python gateway, the driver, its block manager, its UI, and the query's shuffle
        assert len(own) >= 5, own
        assert listening([world.live.pid])
        assert _reachable(pids) == []


def test_the_demo_listens_on_loopback_only_and_commands_find_it(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    port, log = free_port(), tmp_path / "demo.log"

    def live() -> bool:
        command = [
            str(LIVEJOIN),
            "status",
            "--output",
            "json",
            "--url",
            f"http://127.0.0.1:{port}/",
        ]
        done = subprocess.run(command, capture_output=True, env=env, check=False, timeout=60)
        return done.returncode == 0 and json.loads(done.stdout)["state"] == "live"

    with log.open("wb") as file:
        command = [str(LIVEJOIN), "demo", "--port", str(port)]
        demo = subprocess.Popen(command, stdout=file, stderr=file, env=env)
    try:
        until(live, "the demo is live", START_S)
        pids = [demo.pid, *descendants(demo.pid)]
        jvms = [pid for pid in pids if is_java(pid)]
        assert len(jvms) == 2, log.read_text()
        assert all(len(listening([jvm])) >= 2 for jvm in jvms)
        assert _reachable(pids) == []
        for command in (["doctor", "--json"], ["token", "list", "--output", "json"]):
            done = subprocess.run(
                [str(LIVEJOIN), *command],
                capture_output=True,
                text=True,
                env=env,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said = done.stdout if command[0] == "doctor" else done.stderr
            assert "the running demo, whose broker is at 127.0.0.1:" in said
        assert '"label": "demo"' in done.stdout  # the token that the demo made
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
    assert list((tmp_path / "livejoin" / "running-demos").iterdir()) == []
