"""Vouches for who asked, in the headers of what this server writes to the control topic."""

import threading
import time

import structlog

from livejoin.core.control_records import BY_HEADER, SIGNATURE_HEADER
from livejoin.core.names import Names
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.signatures import Signer
from livejoin.tables.auth import access_topics

log = structlog.get_logger()

_AGAIN_S = 86400.0  # the topic forgets what is not said again for weeks
_REFUSED_S = 60.0  # until it is tried again where the key could not be published

Headers = list[tuple[str, str | bytes | None]]  # as the client is typed


class Vouching:
    """Signs with a key that is published before it is first used. May be called by any thread."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        self._signer = Signer()
        self._there = False
        self._next = 0.0
        self._published = False
        self._publishing = threading.Lock()

    def is_there(self) -> None:
        """The topic of access exists, so that nothing of ours makes it by writing to it."""
        self._there = True

    def headers(self, topic: str, by: str, value: bytes) -> Headers:
        """Who asked; and our signature, unless nobody could check it."""
        said = by.encode()
        headers: Headers = [(BY_HEADER, said)]
        if self._can_be_checked():
            signed = self._signer.sign(topic, said, value, int(time.time() * 1000))
            headers.append((SIGNATURE_HEADER, signed))
        return headers

    def _can_be_checked(self) -> bool:
        with self._publishing:
            if self._there and time.monotonic() >= self._next:
                try:
                    access_topics.write_access(self._kafka, self._names, *self._signer.record())
                    self._published, self._next = True, time.monotonic() + _AGAIN_S
                except LivejoinError as error:
                    log.warning("who asks cannot be vouched for", why=str(error))
                    self._next = time.monotonic() + _REFUSED_S
            return self._published
