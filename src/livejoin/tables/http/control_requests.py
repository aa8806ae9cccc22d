"""Control requests over HTTP: routes, previews, signed messages to the control topic.

Each request is audited. The leader reads the topic and decides.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import OffsetSpec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core import control_messages, facts
from livejoin.core.control_decisions import resolve_choice
from livejoin.core.control_messages import MAX_BYTES, InvalidMessage, MessageRules
from livejoin.core.control_records import BY_HEADER, CLIENT_HEADER, SIGNATURE_HEADER, parse_record
from livejoin.core.json_object import parse_object
from livejoin.core.names import Names
from livejoin.core.preview import preview
from livejoin.core.state import Limits, State
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.signatures import Signer
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.audit import Audit, audit_row
from livejoin.tables.auth.origin_check import client_address
from livejoin.tables.auth.sessions_and_codes import ANONYMOUS
from livejoin.tables.auth.sign_in_routes import identity_of
from livejoin.tables.http.json_bodies import problem, read_json_body
from livejoin.tables.http.topic_browser import TopicBrowser
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.system_tables import ControlPosition

log = structlog.get_logger()

# All requests are written to one partition, so that they count in the order of their arrival.
_PARTITION = 0
_OUTCOME_FIELDS = ("partition", "offset", "outcome", "reason", "generation")
_WRITE_S = 10
_OUTCOME_TIMEOUT_S = 10
_REPUBLISH_S = 86400.0  # of the signing key, well within the topic's retention of 45 days
_PUBLISH_RETRY_S = 60.0  # after the key could not be published

KafkaHeaders = list[tuple[str, str | bytes | None]]  # the type confluent_kafka declares


class ControlRoutes:
    """The routes `control`, `rollback` and `preview`."""

    def __init__(self, producer: "ControlProducer", catalog: Catalog, audit: Audit) -> None:
        self._producer = producer
        self._catalog = catalog
        self._audit = audit

    async def control(self, request: Request) -> Response:
        """Request other topics or another join."""
        return await self._send(request, "control", await _read_message(request))

    async def rollback(self, request: Request) -> Response:
        """Roll back to the standby generation."""
        return await self._send(
            request, "roll back", _rollback_message(await _read_message(request, may_be_empty=True))
        )

    async def preview(self, request: Request) -> Response:
        """Return what a request would do."""
        raw = await _read_message(request)
        with self._audited(request, "preview", raw) as result:
            plan = await self._producer.preview(raw)
            result["outcome"] = str(plan["outcome"])
        return JSONResponse(plan)

    async def _send(self, request: Request, action: str, raw: bytes) -> Response:
        with self._audited(request, action, raw) as result:
            outcome = await self._producer.send(raw, _requester(request))
            result["outcome"], result["detail"] = outcome["outcome"], outcome["reason"] or ""
            if outcome["generation"] is not None:
                result["outcome"] += f": generation {outcome['generation']}"
        if outcome["outcome"] == "rejected":
            more = {name: outcome[name] for name in ("partition", "offset", "warnings")}
            return problem(422, "rejected", outcome["reason"], **more)
        return JSONResponse(outcome, 202 if outcome["outcome"] == "written" else 200)

    @contextlib.contextmanager
    def _audited(self, request: Request, action: str, raw: bytes) -> Iterator[dict[str, str]]:
        """Append an audit row when the block ends, whether it fails or not."""
        identity, live = identity_of(request), self._catalog.state.live
        before = f"generation {live.number}: {live.choice}" if live else "nothing is live"
        result = {"outcome": "failed", "detail": ""}
        try:
            yield result
        except LivejoinError as error:
            result["detail"] = str(error)
            raise
        except InvalidMessage as error:
            result["outcome"], result["detail"] = "rejected", str(error)
            raise
        finally:
            address, message = client_address(request.scope), raw.decode(errors="backslashreplace")
            self._audit.append(
                audit_row(
                    identity.display_name,
                    identity.role,
                    address,
                    action,
                    before=before,
                    after=message,
                    **result,
                )
            )


async def _read_message(request: Request, *, may_be_empty: bool = False) -> bytes:
    """Return the request body unchanged."""
    return await read_json_body(
        request,
        MAX_BYTES,
        too_large=f"a control message is limited to {MAX_BYTES >> 10} KiB",
        not_json="send the message as content-type application/json",
        may_be_empty=may_be_empty,
    )


def _requester(request: Request) -> str:
    """Return the requester for `control_raw`: client program, name, address."""
    client = request.headers.get(CLIENT_HEADER, "http")
    program = client if client in ("page", "cli", "python") else "http"
    identity = identity_of(request)
    parts = [program] if identity == ANONYMOUS else [program, identity.display_name]
    return " ".join([*parts, client_address(request.scope)])


def _rollback_message(body: bytes) -> bytes:
    """Return the rollback message, with the fields that the caller's body adds."""
    if not body.strip():
        return b'{"action": "rollback"}'
    fields = parse_object(body)
    if fields is None:
        return body  # the leader rejects it with a reason
    return json.dumps({**fields, "action": "rollback"}).encode()


class ControlProducer:
    """Writes control messages and waits for their outcome."""

    def __init__(
        self,
        clusters: Clusters,
        rules: MessageRules,
        limits: Limits,
        catalog: Catalog,
        signer: "RequestSigner",
    ) -> None:
        self._clusters = clusters
        self._signer = signer
        self._rules = rules
        self.limits = limits
        self.control_spec = rules.spec  # what messages may name
        self._catalog = catalog
        self.topics = TopicBrowser(clusters, rules)
        self._producer: Producer | None = None
        self._producer_lock = threading.Lock()

    async def send(self, raw: bytes, requester: str) -> dict[str, Any]:
        """Write a message; return its position, and its outcome if it is decided in time."""
        position = await asyncio.to_thread(self._write, raw, requester)
        outcome_row: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

        def on_outcome(row: Mapping[str, Any]) -> None:
            if not outcome_row.done():
                outcome_row.set_result(row)

        self._catalog.system.on_outcome(position, on_outcome)
        try:
            row = await asyncio.wait_for(outcome_row, _OUTCOME_TIMEOUT_S)
        except TimeoutError:
            reason = "not decided yet: is an orchestrator running?"
            row = {**position._asdict(), "outcome": "written", "reason": reason}
        # leaders of earlier versions write no warnings
        return {name: row.get(name) for name in _OUTCOME_FIELDS} | {
            "warnings": row.get("warnings") or []
        }

    def _write(self, raw: bytes, requester: str) -> ControlPosition:
        with self._producer_lock:
            if self._producer is None:
                config = {"message.timeout.ms": _WRITE_S * 1000}
                self._producer = self._clusters.control.producer(**config)
        headers = self._signer.headers(self._rules.control, requester, raw)
        deliveries: list[tuple[KafkaError | None, Message]] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            deliveries.append((error, message))

        try:
            self._producer.produce(
                self._rules.control,
                raw,
                partition=_PARTITION,
                on_delivery=on_delivery,
                headers=headers,
            )
            self._producer.flush(_WRITE_S + 1)
        except (KafkaException, BufferError) as error:
            raise self._write_error(error) from error
        failure, message = deliveries[0] if deliveries else (None, None)
        offset = message.offset() if message else None
        if failure is not None or offset is None:
            raise self._write_error(failure.str() if failure else "no acknowledgement")
        return ControlPosition(_PARTITION, offset)

    def _write_error(self, reason: object) -> KafkaUnavailable:
        return KafkaUnavailable(
            f'cannot write to control topic "{self._rules.control}": {reason}',
            hint="Check that the broker is running, then retry.",
        )

    async def preview(self, raw: bytes) -> dict[str, Any]:
        """Return what a message would do now."""
        inbound = parse_record(_PARTITION, 0, time.time(), "preview", raw, self._rules)
        if inbound.request is None:
            raise InvalidMessage(inbound.error)
        request, state = inbound.request, self._catalog.state
        topics = await asyncio.to_thread(self._describe_topics, request, state)
        received = facts.MessageReceived(inbound.origin, request, "", topics)
        current = replace(state, limits=self.limits, spec=self.control_spec, now=time.time())
        return preview(current, received)

    def _describe_topics(
        self, request: control_messages.Request, state: State
    ) -> dict[str, facts.TopicInfo | str]:
        choice = resolve_choice(state, request)
        names = {*request.topics.values(), *(choice.topics.values() if choice else ())}
        topics = self._clusters.data.describe_readable(sorted(names))
        return {
            name: topic if isinstance(topic, str) else self._measure(topic)
            for name, topic in topics.items()
        }

    def _measure(self, topic: Topic) -> facts.TopicInfo:
        data = self._clusters.data
        starts = data.offsets([topic], OffsetSpec.earliest())[topic.name]
        ends = data.offsets([topic], OffsetSpec.latest())[topic.name]
        return facts.TopicInfo(len(starts), sum(ends[p] - start for p, start in starts.items()))


class RequestSigner:
    """Signs the requester's name in a message's headers. Thread-safe.

    The key is published before its first use.
    """

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

    def headers(self, topic: str, by: str, value: bytes) -> KafkaHeaders:
        """Return the requester header, and the signature header once the key is published."""
        said = by.encode()
        headers: KafkaHeaders = [(BY_HEADER, said)]
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
                    self._next_publish_at = time.monotonic() + _PUBLISH_RETRY_S
            return self._published
