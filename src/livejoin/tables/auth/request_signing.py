"""Signs the requester's name in the headers of this server's control messages."""

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

_REPUBLISH_S = 86400.0  # well within the topic's retention of 45 days
_RETRY_S = 60.0  # after the key could not be published

Headers = list[tuple[str, str | bytes | None]]  # the type confluent_kafka declares


class RequestSigner:
    """Signs with a key that is published before its first use. Thread-safe."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        self._signer = Signer()
        self._topic_ready = False
        self._next_publish_at = 0.0
        self._published = False
        self._lock = threading.Lock()

    def on_topic_ready(self) -> None:
        """Allow publishing: the access topic exists, so a write cannot auto-create it."""
        self._topic_ready = True

    def headers(self, topic: str, by: str, value: bytes) -> Headers:
        """Return the requester header, and the signature header once the key is published."""
        said = by.encode()
        headers: Headers = [(BY_HEADER, said)]
        if self._ensure_key_published():
            signed = self._signer.sign(topic, said, value, int(time.time() * 1000))
            headers.append((SIGNATURE_HEADER, signed))
        return headers

    def _ensure_key_published(self) -> bool:
        with self._lock:
            if self._topic_ready and time.monotonic() >= self._next_publish_at:
                try:
                    access_topics.write_access(self._kafka, self._names, *self._signer.key_record())
                    self._published, self._next_publish_at = True, time.monotonic() + _REPUBLISH_S
                except LivejoinError as error:
                    log.warning(
                        "cannot publish the signing key; requests are unsigned", why=str(error)
                    )
                    self._next_publish_at = time.monotonic() + _RETRY_S
            return self._published
