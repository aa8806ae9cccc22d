"""Kafka with logins and rights: a swap over three logins exposes no secret (D6); failed logins."""

import contextlib
import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Section
from livejoin.kafka.records import read_to_end
from livejoin.runtime.broker import free_port
from rig import granting
from rig.authority import Authority
from rig.provider import provider
from rig.running import LIVEJOIN, Running, descendants, running, until
from rig.secure import CLIENT_SECRET, PASSWORD, USER, SecureBroker, secure
from rig.world import (
    PAIRS,
    ExpectLive,
    ExpectOracle,
    Produce,
    Send,
    WaitOutcome,
    World,
    play,
    request_pair,
    run_world,
    topics,
)

DATA = "canary-name-in-the-data-51ce"
# one for each way to log in
USERS: dict[Section, str] = {
    "kafka": "livejoin-own",
    "kafka_data": USER,
    "kafka_control": "livejoin-control",
}
TABLES = ("orchestrator_logs", "control_raw", "generations", "orchestrator_status")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that requires logins and checks rights, and an identity provider it trusts."""
    folder, authority = tmp_path_factory.mktemp("secure"), Authority()
    with (
        provider(folder / "provider", authority, subject=USERS["kafka"]) as identities,
        secure(folder, authority, identities, more=granting.CHECKS_RIGHTS) as one,
    ):
        yield replace(one, own=authority.sign(USERS["kafka_control"]))


# --- D6: a login for each block, each only with its documented rights, logged at DEBUG


def grant_documented(guarded: SecureBroker, name: str) -> None:
    """Grant the users of the blocks what the page says, for both pairs of sources."""
    for pair in PAIRS:
        inputs = topics(name, pair) | {"control": f"{name}.control"}
        found = granting.documented(granting.SEVERAL, name, inputs, USERS)
        assert {right.section for right in found} == set(USERS)
        granting.grant(guarded.open, [right.binding for right in found])


def test_a_swap_over_oauthbearer_shows_no_secret_anywhere(
    guarded: SecureBroker, tmp_path: Path
) -> None:
    ui_port = free_port()
    conf = {"spark.log.level": "DEBUG", "spark.ui.enabled": "true", "spark.ui.port": str(ui_port)}
    grant_documented(guarded, "secure")
    # listeners of one broker with different logins are different blocks, each with its own secret
    kafka = guarded.kafka_for("OAUTHBEARER", debug="all")
    others: dict[str, Any] = {
        "kafka_data": dict(guarded.kafka_for("PLAIN", debug="all").properties),
        "kafka_control": dict(guarded.kafka_for("SSL", debug="all").properties),
    }
    with run_world(kafka, tmp_path, "secure", spark={"conf": conf}, **others) as world:
        world.producers["b"].send("users", {"userId": "b-canary", "name": DATA})
        play(world, [
            Produce("b", 20), request_pair("secure", "b"), WaitOutcome("live"), ExpectLive("b"),
            ExpectOracle("b"),
            Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive("a"), ExpectOracle("a"),
        ])  # fmt: skip
        key = guarded.own.key_pem().splitlines()[1]
        canaries = (CLIENT_SECRET, PASSWORD, key)
        assert places_of_secrets(world, ui_port, canaries) == []
        assert places_of_data(world, ui_port) == []
        assert world.live.stop() == 0
        texts = [world.live.log.read_text(), (tmp_path / "checkpoints/spark.log").read_text()]
        assert min(map(len, texts)) > 10_000, "nothing was logged"
        assert "SASL" in texts[0], "librdkafka did not log at DEBUG"
        assert [canary for canary in (*canaries, DATA) if any(canary in t for t in texts)] == []
        assert logged_tokens(texts) == []


def places_of_secrets(world: World, ui_port: int, canaries: tuple[str, ...]) -> list[str]:
    """Return where a secret appears: HTTP, topics, checkpoints, command lines, Spark's UI."""
    places = {f"GET {path}": text.encode() for path, text in http_texts(world, ui_port).items()}
    places |= {f"topic {name}": data for name, data in topic_contents(world).items()}
    found = (file for file in (world.live.folder / "checkpoints").rglob("*") if file.is_file())
    for file in found:
        with contextlib.suppress(FileNotFoundError):  # queries are running
            places[str(file)] = file.read_bytes()
    for pid in (world.live.pid, *descendants(world.live.pid)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            places[f"process {pid}"] = Path(f"/proc/{pid}/cmdline").read_bytes()
    config = [str(LIVEJOIN), "config", "-c", str(world.live.folder / "livejoin.yaml")]
    places["config"] = subprocess.run(config, capture_output=True, check=True).stdout
    assert len(places) > 30, places.keys()
    return [
        where for where, text in places.items() for canarie in canaries if canarie.encode() in text
    ]


def places_of_data(world: World, ui_port: int) -> list[str]:
    """Return where data appears outside the data tables."""
    return [where for where, text in http_texts(world, ui_port).items() if DATA in text]


def http_texts(world: World, ui_port: int) -> dict[str, str]:
    api_paths = ["api/v1/status", "metrics", "readyz?verbose", "livez", "api/v1/generations"]
    api_paths += [f"api/v1/tables/{name}" for name in TABLES]
    found = {path: _read(world.live.url + path) for path in api_paths}
    spark = f"http://127.0.0.1:{ui_port}/"
    paths = ["environment/", "jobs/", "stages/", "SQL/", "StreamingQuery/", "executors/"]
    queries = re.findall(r"SQL/execution/\?id=\d+", _read(f"{spark}SQL/"))
    assert "Hadoop Properties" in _read(f"{spark}environment/")
    return found | {path: _read(spark + path) for path in (*paths, *queries)}


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def topic_contents(world: World) -> dict[str, bytes]:
    """Return the content of livejoin's own topics."""
    found = {}
    for name in world.kafka.topics():
        if name.startswith("secure."):
            consumer = world.kafka.reader("looking")
            try:
                places = world.kafka.describe([name])[name].partitions
                found[name] = b"".join(_all(consumer, name, p) for p in places)
            finally:
                consumer.close()
    return found


def _all(consumer: Consumer, name: str, partition: int) -> bytes:
    consumer.assign([TopicPartition(name, partition, 0)])
    return b"".join(record.key + record.value for record in read_to_end(consumer, name))


def logged_tokens(texts: list[str]) -> list[str]:
    """Return logged tokens: three parts, the first of which is a JSON object in Base64."""
    return [t for text in texts for t in re.findall(r"eyJ[\w-]{20,}\.[\w-]{20,}\.[\w-]{20,}", text)]


# --- failed logins


def test_a_failed_login_is_reported(guarded: SecureBroker, tmp_path: Path) -> None:
    block = guarded.settings_for("PLAIN") | {"sasl.password": "canary-wrong"}
    kafka = Kafka(guarded.open.properties)
    kafka.properties = block
    one = Running(kafka, tmp_path / "run", name="d5")
    one.start()
    try:
        until(
            lambda: _reports_failed_login(one), "the status has the reason", 30
        )  # 15 s after the start
        assert one.stop() == 0
    finally:
        one.stop()
    assert "canary-wrong" not in one.log.read_text()


def test_failed_logins_of_other_blocks_are_reported_by_block(
    guarded: SecureBroker, tmp_path: Path
) -> None:
    blocks: dict[str, Any] = {
        "kafka_data": guarded.settings_for("PLAIN") | {"sasl.password": "canary-wrong"},
        "kafka_control": guarded.bad_certificate("EXPIRED"),
    }
    with running(
        guarded.kafka_for("SCRAM-SHA-256"), tmp_path, command="serve", name="d5-blocks", **blocks
    ) as server:

        def reported(section: str, words: str) -> bool:
            checks = _checks(server)
            return words in str(checks.get(section, {}).get("why"))

        data, control = "(cluster of the sources)", "(cluster of the control topic)"
        until(lambda: reported("kafka_data", f"{data} failed: "), "the sources' login", 30)
        until(lambda: reported("kafka_control", f"{control} failed: "), "the other login", 30)
        assert "login" not in str(_checks(server)["kafka"])
    assert "canary-wrong" not in server.log.read_text()


def _checks(server: Running) -> dict[str, Any]:
    """The checks of `/readyz?verbose` by name; none while it starts."""
    try:
        with urllib.request.urlopen(f"{server.url}readyz?verbose", timeout=30) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    except OSError:
        return {}
    return {check["name"]: check for check in found["checks"]}


def _reports_failed_login(livejoin: Running) -> bool:
    with contextlib.suppress(AssertionError):
        status = livejoin.request("api/v1/status")
        return status["state"] == "waiting" and "uthentication" in status["message"]
    return False


def test_settings_that_would_send_the_password_in_clear_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"kafka: {{bootstrap.servers: x, sasl.username: u, sasl.password: {PASSWORD}}}")
    env = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [LIVEJOIN, "run", "-c", file], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 2
    assert "Set security.protocol: SASL_SSL" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
