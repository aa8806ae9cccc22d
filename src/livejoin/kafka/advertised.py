"""Names brokers that answer at their bootstrap address, but not at the one they advertise.

Every client is told the advertised addresses and uses only those, except for its first question.
"""

import contextlib
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple

_CONNECT_S = 2.0
# How librdkafka names a broker whose address it has from another broker, in its errors.
_NAMED = re.compile(r"^(?:\w+://)?(\S+:\d+)/(\d+): (.*)$")


class LostBroker(NamedTuple):
    """A broker that cannot be connected to from this machine."""

    broker: int
    address: str
    why: str


def first_unreachable(brokers: Iterable[tuple[int, str, int]], bootstrap: str) -> LostBroker | None:
    """The first of these brokers (id, host, port) that refuses a connection, by another address."""
    known = _addresses(bootstrap)
    for broker, host, port in brokers:
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if address in known:
            continue
        try:
            with contextlib.closing(socket.create_connection((host, port), _CONNECT_S)):
                pass
        except OSError as error:
            return LostBroker(broker, address, error.strerror or str(error))
    return None


def from_error(cause: str, bootstrap: str) -> LostBroker | None:
    """The broker that an error of librdkafka is about, if it has another address."""
    found = _NAMED.match(cause)
    if found is None or found[1] in _addresses(bootstrap):
        return None
    return LostBroker(int(found[2]), found[1], found[3])


def _addresses(bootstrap: str) -> set[str]:
    return set(bootstrap.split(","))
