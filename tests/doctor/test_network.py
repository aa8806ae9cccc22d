"""Clusters that cannot be reached: each step says why, the later ones are skipped, none waits."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from doctor.conftest import Diagnose
from livejoin.doctor import network
from rig.findings import of, only, severities

WITHIN_S = 15.0  # a cluster


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.socket() as listener, contextlib.ExitStack() as accepted:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)

        def accept() -> None:
            with contextlib.suppress(OSError):  # the listener is shut down
                while True:
                    accepted.enter_context(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_closed_port_skips_the_rest(diagnose: Diagnose, closed_port: int) -> None:
    found = diagnose({"bootstrap.servers": f"127.0.0.1:{closed_port}"})
    assert severities(found, "kafka") == [
        ("resolve", "ok"),
        ("connect", "BAD"),
        ("login", "skipped"),
        ("advertised", "skipped"),
        ("own prefix", "skipped"),
        ("own topics", "skipped"),
        ("election", "skipped"),
        ("sources", "skipped"),
        ("control topic", "skipped"),
    ]
    refused = only(found, "connect")
    assert refused.found == f"127.0.0.1:{closed_port}: Connection refused"
    assert "Check that the brokers run" in refused.advice
    assert only(found, "login").found == "not tried: connect failed"
    assert only(found, "task slots").severity == "skipped"


def test_a_name_that_is_not_known_is_named(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(host: str, *_more: Any, **_named: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = diagnose({"bootstrap.servers": "kafka.example:9092"})
    resolve = only(found, "resolve")
    assert (resolve.severity, resolve.found) == (
        "BAD",
        "kafka.example:9092: kafka.example: not known",
    )
    assert "DNS" in resolve.advice
    assert only(found, "connect").found == "not tried: resolve failed"


def test_a_name_server_that_does_not_answer_is_not_waited_for(
    diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def silent(*_any: Any, **_named: Any) -> Any:
        released.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    monkeypatch.setattr(network, "_RESOLVE", network._RESOLVE._replace(limit_s=0.2))
    try:
        began = time.monotonic()
        found = diagnose({"bootstrap.servers": "a:1,b:2"})
        assert time.monotonic() - began < WITHIN_S
    finally:
        released.set()
    assert only(found, "resolve").found == "a:1: no answer; b:2: no answer"


def test_one_server_that_works_is_enough(
    diagnose: Diagnose, closed_port: int, silent_port: int
) -> None:
    servers = f"127.0.0.1:{closed_port},127.0.0.1:{silent_port}"
    found = diagnose({"bootstrap.servers": servers})
    connect = only(found, "connect")
    assert connect.severity == "warning"
    assert connect.found == f"127.0.0.1:{closed_port}: Connection refused; 1 of 2 servers work"


def test_a_server_that_never_answers_is_not_waited_for(
    diagnose: Diagnose, silent_port: int
) -> None:
    began = time.monotonic()
    found = diagnose({"bootstrap.servers": f"127.0.0.1:{silent_port}"})
    assert time.monotonic() - began < WITHIN_S
    login = only(found, "login")
    assert login.severity == "BAD"
    assert f"Kafka at 127.0.0.1:{silent_port} cannot be reached" in login.found
    assert only(found, "advertised").found == "not tried: login failed"


def test_each_cluster_is_checked_once_and_named_by_its_section_and_roles(
    diagnose: Diagnose, closed_port: int
) -> None:
    servers = f"127.0.0.1:{closed_port}"
    other = {"bootstrap.servers": servers, "client.id": "other"}
    found = diagnose({"bootstrap.servers": servers}, kafka_data=other)
    assert list(dict.fromkeys(one.cluster for one in found if one.cluster)) == [
        "kafka (own topics, control)",
        "kafka_data (sources)",
    ]
    assert len(of(found, "connect")) == 2
    assert "sources" not in dict(severities(found, "kafka (own"))
