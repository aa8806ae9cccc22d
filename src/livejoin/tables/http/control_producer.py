"""Requests that come by HTTP: written to the control topic like any other, or previewed."""

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
from livejoin.core.control_messages import InvalidMessage, Request, TopicRules
from livejoin.core.control_records import parse_record
from livejoin.core.preview import preview
from livejoin.core.requests import resolve_choice
from livejoin.core.state import Limits, State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.tables.auth.request_signing import RequestSigner
from livejoin.tables.http.topic_browser import TopicBrowser
from livejoin.tables.ingest.catalog import Catalog

_WRITE_S = 10
_OUTCOME_TIMEOUT_S = 10


class ControlProducer:
    """Passes requests on, and waits for what becomes of them."""

    def __init__(
        self,
        kafka: Kafka,
        rules: TopicRules,
        limits: Limits,
        host: Catalog,
        vouching: RequestSigner,
    ) -> None:
        self._kafka = kafka
        self._signer = vouching
        self._rules = rules
        self.limits = limits
        self._catalog = host
        self.topics = TopicBrowser(kafka, rules)
        self._producer: Producer | None = None
        self._producer_lock = threading.Lock()

    async def send(self, raw: bytes, by: str) -> dict[str, Any]:
        """Write a message; where it stands, and its outcome if that is known soon."""
        offset = await asyncio.to_thread(self._write, raw, by)
        decided: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(row: Mapping[str, Any]) -> None:
            if not decided.done():
                decided.set_result(row)

        self._catalog.system.on_outcome(offset, answer)
        try:
            row = await asyncio.wait_for(decided, _OUTCOME_TIMEOUT_S)
        except TimeoutError:
            why = "nobody has decided on it yet: is an orchestrator running?"
            return {"offset": offset, "outcome": "written", "reason": why, "generation": None}
        return {name: row.get(name) for name in ("offset", "outcome", "reason", "generation")}

    def _write(self, raw: bytes, by: str) -> int:
        with self._producer_lock:
            if self._producer is None:
                limit = {"message.timeout.ms": _WRITE_S * 1000}
                self._producer = self._kafka.producer(**limit)
        headers = self._signer.headers(self._rules.control, by, raw)
        done: list[tuple[KafkaError | None, int | None]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            done.append((error, message.offset()))

        try:
            self._producer.produce(
                self._rules.control,
                raw,
                on_delivery=delivered,
                headers=headers,
            )
            self._producer.flush(_WRITE_S + 1)
        except (KafkaException, BufferError) as error:
            raise self._write_error(error) from error
        failed, offset = done[0] if done else (None, None)
        if failed is not None or offset is None:
            raise self._write_error(failed.str() if failed else "no answer")
        return offset

    def _write_error(self, why: object) -> KafkaUnavailable:
        return KafkaUnavailable(
            f'control topic "{self._rules.control}" cannot be written: {why}',
            hint="Check that the broker runs, then ask again.",
        )

    async def preview(self, raw: bytes) -> dict[str, Any]:
        """What a message would do if it came now."""
        inbound = parse_record(0, time.time(), "preview", raw, self._rules)
        if inbound.request is None:
            raise InvalidMessage(inbound.error)
        request, state = inbound.request, self._catalog.state
        topics = await asyncio.to_thread(self._describe_topics, request, state)
        asked = facts.MessageReceived(inbound.origin, request, "", topics)
        now = replace(state, limits=self.limits, now=time.time())
        return preview(now, asked)

    def _describe_topics(self, request: Request, state: State) -> dict[str, facts.TopicInfo | str]:
        choice = resolve_choice(state, request)
        names = {*request.topics, *((choice.users, choice.accounts) if choice else ())}
        found = self._kafka.describe_readable(sorted(names))
        return {
            name: one if isinstance(one, str) else self._measure(one) for name, one in found.items()
        }

    def _measure(self, topic: Topic) -> facts.TopicInfo:
        starts = self._kafka.offsets([topic], OffsetSpec.earliest())[topic.name]
        ends = self._kafka.offsets([topic], OffsetSpec.latest())[topic.name]
        return facts.TopicInfo(len(starts), sum(ends[p] - start for p, start in starts.items()))


def rollback_message(body: bytes) -> bytes:
    """A request to go back, from what a caller adds to it."""
    if not body.strip():
        return b'{"action": "rollback"}'
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return body  # it is rejected with its reason
    return json.dumps({**given, "action": "rollback"}).encode() if isinstance(given, dict) else body
