"""What is checked without Kafka: settings, port, folders, task slots."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.conftest import Diagnose
from livejoin.config.sections import HttpSettings, SparkSettings
from livejoin.config.settings import Settings
from livejoin.doctor import machine
from livejoin.runtime import processes
from livejoin.runtime.broker import free_port
from rig.findings import of, only, severities
from tables.live_server import run_server

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def used_port() -> Iterator[int]:
    """A port on which this process listens, but not as livejoin.

    Its descriptor is above one that is free, which the listing of descriptors takes meanwhile.
    """
    free = socket.socket()
    with socket.socket() as listener:
        free.close()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("block", "said", "advice"),
    [
        ({"bootstrap.server": "a:1"}, "did you mean bootstrap.servers?", ""),
        ({"security.protocol": "SSL"}, "kafka: bootstrap.servers is missing", ""),
        (
            {"bootstrap.servers": "a:1", "sasl.username": "u", "sasl.password": "canary"},
            "sasl.password is set, but security.protocol is not",
            "Set security.protocol: SASL_SSL",
        ),
    ],
)
@pytest.mark.parametrize("section", ["kafka", "kafka_control"])
def test_a_wrong_block_is_an_error_of_the_settings(
    diagnose: Diagnose, block: dict[str, str], said: str, advice: str, section: str
) -> None:
    found = diagnose(**{"kafka": {"bootstrap.servers": "a:1"}, section: block})
    wrong = only(found, "settings")
    assert wrong.severity == "BAD"
    assert said.replace("kafka:", f"{section}:") in wrong.found
    assert section in wrong.found
    assert advice in wrong.found + wrong.advice
    assert "canary" not in str(found)
    assert severities(found)[-1] == ("kafka", "skipped")


def test_warnings_of_the_settings_are_warnings(diagnose: Diagnose) -> None:
    found = diagnose({**NOWHERE, "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT",
                      "sasl.username": "u", "sasl.password": "canary"})  # fmt: skip
    texts = [one.found for one in of(found, "settings") if one.severity == "warning"]
    assert any("travel unencrypted" in text for text in texts)
    assert any("is in plain text" in text for text in texts)
    assert "canary" not in str(found)


def test_a_free_port_is_free(diagnose: Diagnose) -> None:
    port = free_port()
    found = only(diagnose(NOWHERE, http={"port": port}), "port")
    assert (found.severity, found.found) == ("ok", f"127.0.0.1:{port} is free")


def test_a_used_port_is_named_with_its_process(diagnose: Diagnose, used_port: int) -> None:
    found = only(diagnose(NOWHERE, http={"port": used_port}), "port")
    assert found.severity == "BAD"
    assert f"cannot listen on 127.0.0.1:{used_port}: Address already in use" in found.found
    if Path("/proc/net/tcp").exists():
        assert f"process {os.getpid()} (" in found.found, found
    assert "http.port" in found.advice


def test_a_port_that_a_livejoin_uses_is_a_warning(diagnose: Diagnose) -> None:
    with run_server() as server:
        found = only(diagnose(NOWHERE, http={"port": server.port}), "port")
        assert found.severity == "warning"
        assert found.found == f"127.0.0.1:{server.port} is used by a running livejoin"
        settings = Settings(http=HttpSettings(port=server.port))
        (ours,) = machine.check_port(settings, is_ours=True)
        assert (ours.severity, "running demo" in ours.found) == ("ok", True)


def test_an_address_that_others_reach_without_tls_is_bad(diagnose: Diagnose) -> None:
    found = only(diagnose(NOWHERE, http={"host": "0.0.0.0", "port": free_port()}), "port")
    assert found.severity == "BAD"
    assert "there is no TLS" in found.found


def test_a_folder_is_tried_and_left_as_it_was(diagnose: Diagnose, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    found = only(diagnose(NOWHERE, checkpoints=str(folder)), "checkpoints")
    assert (found.severity, f"{folder} is writable" in found.found) == ("ok", True)
    assert list(folder.iterdir()) == []
    new = only(diagnose(NOWHERE, checkpoints=str(folder / "new" / "er")), "checkpoints")
    assert (new.severity, "created at the first start" in new.found) == ("ok", True)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_bad(diagnose: Diagnose, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # also root cannot make a folder below it
    found = only(diagnose(NOWHERE, checkpoints=str(tmp_path / "file" / "below")), "checkpoints")
    assert found.severity == "BAD"
    assert f"{tmp_path / 'file'} cannot be written: Not a directory" in found.found


def test_a_folder_of_a_running_livejoin_is_a_warning(diagnose: Diagnose, tmp_path: Path) -> None:
    with processes.file_lock(tmp_path / "checkpoints" / "livejoin.lock", "checkpoints"):
        found = of(diagnose(NOWHERE), "checkpoints")
    assert [one.severity for one in found] == ["ok", "warning"]
    assert "is used by a running livejoin" in found[1].found
    assert [one.severity for one in of(diagnose(NOWHERE), "checkpoints")] == ["ok"]


def test_a_remote_folder_is_said_as_not_checked(diagnose: Diagnose) -> None:
    found = only(diagnose(NOWHERE, checkpoints="hdfs://namenode/x"), "checkpoints")
    assert found.severity == "skipped"
    assert "not checked: Spark's JVM accesses hdfs://namenode/x" in found.found


@pytest.mark.parametrize(
    ("slots", "severity", "said"),
    [(9, "BAD", "0 fit"), (10, "warning", "1 fit at once, so a swap"), (20, "ok", "2 fit at once")],
)
def test_task_slots_are_compared_with_the_partitions(slots: int, severity: str, said: str) -> None:
    chosen = Settings(spark=SparkSettings(slots=slots, shuffle_partitions=2))
    found = machine.check_task_slots(chosen, 7)
    assert found.severity == severity
    assert f"takes 10 of {slots}" in found.found
    assert said in found.found
