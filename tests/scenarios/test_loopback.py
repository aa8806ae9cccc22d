"""What others can reach of livejoin: from another machine nothing; beside a demo, as documented."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from livejoin.kafka.cluster import Kafka
from rig.listening import Listening, listening
from rig.python_examples import examples
from rig.running import LIVEJOIN, START_S, descendants, is_java
from rig.running_demo import Demo, running_demo
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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as running:
        yield running


def test_the_demo_listens_on_loopback_only(demo: Demo) -> None:
    pids = [demo.pid, *descendants(demo.pid)]
    jvms = [pid for pid in pids if is_java(pid)]
    assert len(jvms) == 2, demo.log.read_text()
    assert all(len(listening([jvm])) >= 2 for jvm in jvms)
    assert _reachable(pids) == []


def test_the_python_examples_of_the_documents_run_beside_the_demo(
    demo: Demo, tmp_path: Path
) -> None:
    """As written: each finds the demo and its token, and two of them swap."""
    file = tmp_path / "example.py"
    printed = {}
    for example in examples():
        file.write_text(example.text)
        command = [sys.executable, str(file)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=demo.env, check=False, timeout=START_S
        )
        assert (done.returncode, done.stderr) == (0, ""), example
        printed[str(example)] = done.stdout
    assert re.match(r"\d+ rows, the first: \{'userId': 'a-", printed["README.md:1"])
    assert re.search(r"^live \d+$", printed["docs/tutorial.md:1"], re.MULTILINE)
    assert "live" in printed["docs/python-client.md:3"]


def test_a_table_of_the_demo_can_be_followed_in_a_terminal(demo: Demo) -> None:
    command = [str(LIVEJOIN), "show", "final_ui", "--follow", "--limit", "1", "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=demo.env) as following:
        assert following.stdout is not None
        lines = [json.loads(following.stdout.readline()) for _ in range(4)]
        following.terminate()
    assert [line["kind"] for line in lines[:2]] == ["snapshot", "row"]
    assert lines[0]["total"] > 1
    assert {line["kind"] for line in lines[2:]} <= {"insert", "upsert", "remove"}


def test_commands_without_settings_find_the_demo(demo: Demo) -> None:
    said = "the running demo, whose broker is at 127.0.0.1:"
    doctor = demo.command("doctor", "--json")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    found = {one["check"]: one for one in json.loads(doctor.stdout)}
    assert said in found["settings"]["found"]
    assert found["port"]["found"].endswith("is used by the running demo")
    tokens = demo.command("token", "list", "--output", "json")
    assert tokens.returncode == 0, tokens.stderr
    assert said in tokens.stderr
    assert "demo" in [one["label"] for one in json.loads(tokens.stdout)["tokens"]]


def test_a_browser_signs_in_to_the_demo_without_its_url(demo: Demo) -> None:
    url = demo.env["LIVEJOIN_URL"]
    env = {name: value for name, value in demo.env.items() if name != "LIVEJOIN_URL"}
    done = replace(demo, env=env).command("token", "sign-in")
    assert (done.returncode, done.stdout.startswith(f"{url}#code=")) == (0, True), done.stderr
    assert f"this is for the running demo at {url}" in done.stderr
