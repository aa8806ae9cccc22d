"""Writes control requests from HTTP to the control topic, and previews them."""

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import OffsetSpec

from livejoin.core import facts
from livejoin.core.control_decisions import resolve_choice
from livejoin.core.control_messages import InvalidMessage, Request, TopicRules
from livejoin.core.control_records import parse_record
from livejoin.core.preview import preview
from livejoin.core.state import Limits, State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.tables.auth.request_signing import RequestSigner
from livejoin.tables.http.topic_browser import TopicBrowser
from livejoin.tables.ingest.catalog import Catalog

_WRITE_S = 10
_OUTCOME_TIMEOUT_S = 10


class ControlProducer:
    """Writes control messages and waits for their outcome."""

    def __init__(
        self,
        kafka: Kafka,
        rules: TopicRules,
        limits: Limits,
        catalog: Catalog,
        signer: RequestSigner,
    ) -> None:
        self._kafka = kafka
        self._signer = signer
        self._rules = rules
        self.limits = limits
        self._catalog = catalog
        self.topics = TopicBrowser(kafka, rules)
        self._producer: Producer | None = None
        self._producer_lock = threading.Lock()

    async def send(self, raw: bytes, requester: str) -> dict[str, Any]:
        """Write a message; return its offset, and its outcome if it is decided in time."""
        offset = await asyncio.to_thread(self._write, raw, requester)
        outcome_row: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

        def on_outcome(row: Mapping[str, Any]) -> None:
            if not outcome_row.done():
                outcome_row.set_result(row)

        self._catalog.system.on_outcome(offset, on_outcome)
        try:
            row = await asyncio.wait_for(outcome_row, _OUTCOME_TIMEOUT_S)
        except TimeoutError:
            reason = "not decided yet: is an orchestrator running?"
            return {"offset": offset, "outcome": "written", "reason": reason, "generation": None}
        return {name: row.get(name) for name in ("offset", "outcome", "reason", "generation")}

    def _write(self, raw: bytes, requester: str) -> int:
        with self._producer_lock:
            if self._producer is None:
                config = {"message.timeout.ms": _WRITE_S * 1000}
                self._producer = self._kafka.producer(**config)
        headers = self._signer.headers(self._rules.control, requester, raw)
        deliveries: list[tuple[KafkaError | None, int | None]] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            deliveries.append((error, message.offset()))

        try:
            self._producer.produce(
                self._rules.control,
                raw,
                on_delivery=on_delivery,
                headers=headers,
            )
            self._producer.flush(_WRITE_S + 1)
        except (KafkaException, BufferError) as error:
            raise self._write_error(error) from error
        failure, offset = deliveries[0] if deliveries else (None, None)
        if failure is not None or offset is None:
            raise self._write_error(failure.str() if failure else "no acknowledgement")
        return offset

    def _write_error(self, reason: object) -> KafkaUnavailable:
        return KafkaUnavailable(
            f'cannot write to control topic "{self._rules.control}": {reason}',
            hint="Check that the broker is running, then retry.",
        )

    async def preview(self, raw: bytes) -> dict[str, Any]:
        """Return what a message would do now."""
        inbound = parse_record(0, time.time(), "preview", raw, self._rules)
        if inbound.request is None:
            raise InvalidMessage(inbound.error)
        request, state = inbound.request, self._catalog.state
        topics = await asyncio.to_thread(self._describe_topics, request, state)
        received = facts.MessageReceived(inbound.origin, request, "", topics)
        current = replace(state, limits=self.limits, now=time.time())
        return preview(current, received)

    def _describe_topics(self, request: Request, state: State) -> dict[str, facts.TopicInfo | str]:
        choice = resolve_choice(state, request)
        names = {*request.topics, *((choice.users, choice.accounts) if choice else ())}
        topics = self._kafka.describe_readable(sorted(names))
        return {
            name: topic if isinstance(topic, str) else self._measure(topic)
            for name, topic in topics.items()
        }

    def _measure(self, topic: Topic) -> facts.TopicInfo:
        starts = self._kafka.offsets([topic], OffsetSpec.earliest())[topic.name]
        ends = self._kafka.offsets([topic], OffsetSpec.latest())[topic.name]
        return facts.TopicInfo(len(starts), sum(ends[p] - start for p, start in starts.items()))


def rollback_message(body: bytes) -> bytes:
    """Return the rollback message, with the fields that the caller's body adds."""
    if not body.strip():
        return b'{"action": "rollback"}'
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return body  # the leader rejects it with a reason
    return (
        json.dumps({**fields, "action": "rollback"}).encode() if isinstance(fields, dict) else body
    )
