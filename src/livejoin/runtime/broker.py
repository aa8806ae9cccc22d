"""An embedded Kafka broker for the demo and the tests: KRaft, on loopback, in its own folder."""

import base64
import contextlib
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from livejoin.core.own_topics import MAX_RECORD_BYTES
from livejoin.errors import BrokerStartFailed, KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import jars, processes

_START_S = 60  # takes 3 s on an idle machine
_JVM_OPTIONS = (
    "-Xms512m",
    "-Xmx512m",
    # HotSpot's second compiler takes two thirds of the broker's CPU in the first minutes, and a
    # demo or a test ends before that pays off
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)


@contextlib.contextmanager
def embedded_broker(  # noqa: PLR0913 - all but the folder have a default
    folder: Path,
    port: int = 0,
    *,
    more: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    more_classes: Sequence[Path] = (),
    archive_classes: bool = False,
) -> Iterator[Kafka]:
    """Run a broker in a folder, on a free port by default. An existing folder keeps its data.

    `more` are additional broker settings. Its listeners are added to the broker's own, and are
    advertised unless it contains advertised listeners too. `more_classes` are folders or jars with
    classes that these settings name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with processes.file_lock(folder / "broker.lock", "folder") as lock:
        port = port or free_port()
        settings = _write_server_properties(folder, port, free_port(), more or {})
        files, java = jars.jars("broker"), processes.find_java()
        classpath = os.pathsep.join(map(str, (*files, *more_classes)))  # as archived, then more
        shared = jars.archive_options(class_archive(java), make=archive_classes)
        _format_storage(
            [java, *([] if archive_classes else shared), "-cp", classpath], settings, folder
        )
        log = folder / "broker.log"
        child = processes.Child(
            [
                java,
                *_JVM_OPTIONS,
                *java_options,
                *shared,
                "-cp",
                classpath,
                "kafka.Kafka",
                str(settings),
            ],
            log=log,
            keep=[lock],
        )
        try:
            kafka = Kafka({"bootstrap.servers": f"127.0.0.1:{port}"})
            try:
                kafka.wait_until_reachable(_START_S)
            except KafkaUnavailable as error:
                ended = "ended" if child.exited else f"did not answer within {_START_S} s"
                raise BrokerStartFailed(
                    f"the embedded broker {ended}", hint=f"See its log: {log}."
                ) from error
            yield kafka
        finally:
            child.close(grace_s=60 if archive_classes else 10)


def class_archive(java: str) -> Path:
    """Path of the archive of the broker's loaded classes."""
    return jars.archive_path("broker", java, *jars.jars("broker"))


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_server_properties(
    folder: Path, port: int, controller_port: int, more: Mapping[str, str]
) -> Path:
    ours = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "message.max.bytes": str(MAX_RECORD_BYTES + 65536),
        "auto.create.topics.enable": "false",  # a misspelt topic is an error, not an empty table
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": "16777216",
        **more,
        **{
            name: ",".join((own, *filter(None, [more.get(name, more.get("listeners"))])))
            for name, own in ours.items()
        },
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


def _format_storage(java: list[str], settings: Path, folder: Path) -> None:
    if (folder / "data" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool"]
    arguments = ["format", "--ignore-formatted", f"--cluster-id={cluster}", "-c", str(settings)]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=_START_S
    )
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()[-500:]
        raise BrokerStartFailed(f"the broker's folder {folder} could not be formatted: {output}")
