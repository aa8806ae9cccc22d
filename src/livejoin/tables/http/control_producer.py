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
from livejoin.core.control_messages import Invalid, Request, Rules
from livejoin.core.control_records import understood
from livejoin.core.preview import preview
from livejoin.core.requests import resolved
from livejoin.core.state import Limits, State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.tables.auth.request_signing import Vouching
from livejoin.tables.http.topic_browser import Topics
from livejoin.tables.ingest.catalog import Host

_WRITE_S = 10
_DECIDED_S = 10


class Asking:
    """Passes requests on, and waits for what becomes of them."""

    def __init__(
        self, kafka: Kafka, rules: Rules, limits: Limits, host: Host, vouching: Vouching
    ) -> None:
        self._kafka = kafka
        self._vouching = vouching
        self._rules = rules
        self.limits = limits
        self._host = host
        self.topics = Topics(kafka, rules)
        self._producer: Producer | None = None
        self._making = threading.Lock()

    async def send(self, raw: bytes, by: str) -> dict[str, Any]:
        """Write a message; where it stands, and its outcome if that is known soon."""
        offset = await asyncio.to_thread(self._write, raw, by)
        decided: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

        def answer(row: Mapping[str, Any]) -> None:
            if not decided.done():
                decided.set_result(row)

        self._host.system.when_decided(offset, answer)
        try:
            row = await asyncio.wait_for(decided, _DECIDED_S)
        except TimeoutError:
            why = "nobody has decided on it yet: is an orchestrator running?"
            return {"offset": offset, "outcome": "written", "reason": why, "generation": None}
        return {name: row.get(name) for name in ("offset", "outcome", "reason", "generation")}

    def _write(self, raw: bytes, by: str) -> int:
        with self._making:
            if self._producer is None:
                limit = {"message.timeout.ms": _WRITE_S * 1000}
                self._producer = self._kafka.producer(**limit)
        headers = self._vouching.headers(self._rules.control, by, raw)
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
            raise self._not_written(error) from error
        failed, offset = done[0] if done else (None, None)
        if failed is not None or offset is None:
            raise self._not_written(failed.str() if failed else "no answer")
        return offset

    def _not_written(self, why: object) -> KafkaUnavailable:
        return KafkaUnavailable(
            f'control topic "{self._rules.control}" cannot be written: {why}',
            hint="Check that the broker runs, then ask again.",
        )

    async def preview(self, raw: bytes) -> dict[str, Any]:
        """What a message would do if it came now."""
        inbound = understood(0, time.time(), "preview", raw, self._rules)
        if inbound.request is None:
            raise Invalid(inbound.wrong)
        request, state = inbound.request, self._host.state
        topics = await asyncio.to_thread(self._topics, request, state)
        asked = facts.Asked(inbound.origin, request, "", topics)
        now = replace(state, limits=self.limits, now=time.time())
        return preview(now, asked)

    def _topics(self, request: Request, state: State) -> dict[str, facts.Found | str]:
        choice = resolved(state, request)
        names = {*request.topics, *((choice.users, choice.accounts) if choice else ())}
        found = self._kafka.find(sorted(names))
        return {
            name: one if isinstance(one, str) else self._measured(one)
            for name, one in found.items()
        }

    def _measured(self, topic: Topic) -> facts.Found:
        starts = self._kafka.offsets([topic], OffsetSpec.earliest())[topic.name]
        ends = self._kafka.offsets([topic], OffsetSpec.latest())[topic.name]
        return facts.Found(len(starts), sum(ends[p] - start for p, start in starts.items()))


def rollback(body: bytes) -> bytes:
    """A request to go back, from what a caller adds to it."""
    if not body.strip():
        return b'{"action": "rollback"}'
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return body  # it is rejected with its reason
    return json.dumps({**given, "action": "rollback"}).encode() if isinstance(given, dict) else body
