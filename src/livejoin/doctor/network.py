"""Checks of the way to a cluster: names, TCP, login and first answer, advertised addresses."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from livejoin.doctor import tls
from livejoin.doctor.findings import Finding, bad, failed, in_background, ok, warning
from livejoin.errors import LivejoinError
from livejoin.kafka.bootstrap_servers import Server
from livejoin.kafka.cluster import Kafka

_RESOLVE_S = 4.0
_CONNECT_S = 3.0
_LOGIN_S = 6.0
_ADVERTISED_S = 6.0


def check_names(kafka: Kafka) -> Iterator[Finding]:
    """Resolve every host of the bootstrap servers."""
    yield _try_all(kafka, _RESOLVE)


def check_connections(kafka: Kafka) -> Iterator[Finding]:
    """Open a TCP connection to every bootstrap server."""
    yield _try_all(kafka, _CONNECT)


def check_login(kafka: Kafka) -> Iterator[Finding]:
    """Log in, and get the first answer."""
    try:
        metadata = kafka.wait_until_reachable(_LOGIN_S)
    except LivejoinError as error:
        reasons = (tls.explain(kafka, *server) for server in kafka.servers[:1])
        yield bad("login", "; ".join(filter(None, (error.message, *reasons))), error.hint)
        return
    cluster = f"cluster {metadata.cluster_id}" if metadata.cluster_id else "no cluster id"
    count = len(metadata.brokers)
    yield ok("login", f"{kafka.login}; {cluster}, {count} broker{'s' if count > 1 else ''}")


def check_advertised(kafka: Kafka) -> Iterator[Finding]:
    """Connect to every broker at the address that it advertises."""
    try:
        in_background(kafka.check_advertised).result(_ADVERTISED_S)
    except LivejoinError as error:
        yield failed("advertised", error)
    except TimeoutError:
        yield bad(
            "advertised",
            f"no connection to every broker within {_ADVERTISED_S:g} s",
            "Check that the addresses that brokers advertise can be reached.",
        )
    else:
        yield ok("advertised", "every broker can be reached at its advertised address")


def _resolve(server: Server) -> None:
    socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)


def _connect(server: Server) -> None:
    socket.create_connection(server, _CONNECT_S).close()


class _Attempt(NamedTuple):
    """One kind of check, made with all servers at the same time."""

    check: str
    call: Callable[[Server], None]
    limit_s: float
    advice: str


_RESOLVE = _Attempt(
    "resolve", _resolve, _RESOLVE_S, "Check bootstrap.servers, and the DNS of this machine or VPN."
)
_CONNECT = _Attempt(
    *("connect", _connect, _RESOLVE_S + _CONNECT_S),
    "Check that the brokers run, their port, and firewalls.",
)


def _try_all(kafka: Kafka, attempt: _Attempt) -> Finding:
    """One finding about all servers: one that works is enough."""
    every = kafka.servers
    until = time.monotonic() + attempt.limit_s
    calls = {server: in_background(partial(attempt.call, server)) for server in every}
    failures = {server: why for server, one in calls.items() if (why := _failure(one, until))}
    text = "; ".join(f"{server}: {why}" for server, why in failures.items())
    if not failures:
        return ok(attempt.check, ", ".join(map(str, every)))
    if len(failures) < len(every):
        working = f"{len(every) - len(failures)} of {len(every)} servers work"
        return warning(attempt.check, f"{text}; {working}", attempt.advice)
    return bad(attempt.check, text, attempt.advice)


def _failure(future: "Future[None]", until: float) -> str:
    """Why a call failed; empty if it did not."""
    try:
        future.result(max(0.0, until - time.monotonic()))
    except TimeoutError as error:  # of the future, or of a connection
        return error.strerror or "no answer"
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
