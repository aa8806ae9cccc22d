"""The audit: who did what, from where, before and after, with what outcome.

Rows are written to a topic, from which every server reads its table `audit`. Repeats within ten
seconds are counted in one row, so a flood of refused requests is a few rows.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka

log = structlog.get_logger()

_WINDOW_S = 10.0
_MAX_KINDS = 50  # distinct rows per window; the others share one
_MAX_PENDING = 1000  # rows kept until the topic exists
_MAX_TEXT_CHARS = 1024
_DELIVERY_TIMEOUT_S = 300  # rows are lost after a longer Kafka outage

Row = dict[str, Any]


def audit_row(  # noqa: PLR0913 - one argument per column
    who: str,
    role: str,
    address: str,
    action: str,
    outcome: str,
    *,
    before: str = "",
    after: str = "",
    detail: str = "",
) -> Row:
    """Return an audit row as it is written to the topic, with texts truncated."""
    texts = {
        "who": who,
        "role": role,
        "address": address,
        "action": action,
        "before": before,
        "after": after,
        "outcome": outcome,
        "detail": detail,
    }
    truncated = {name: text[:_MAX_TEXT_CHARS] or None for name, text in texts.items()}
    return {"ts": int(time.time() * 1000), **truncated, "times": 1}


@dataclass
class RepeatCounter:
    """Counts repeated rows: the first of a kind is written at once, the rest once per window."""

    clock: Callable[[], float] = time.monotonic
    _window_start: float = 0.0
    _counted: dict[tuple[str, ...], Row] = field(default_factory=dict)

    def add(self, row: Row) -> Row | None:
        """Count a row; return it if it is the first of its kind and should be written now."""
        if not self._counted:
            self._window_start = self.clock()
        key = tuple(str(row[name]) for name in ("who", "address", "action", "outcome", "detail"))
        kind = key if key in self._counted or len(self._counted) < _MAX_KINDS else ()
        counted = self._counted.get(kind)
        if counted is None:
            shared = {"who": None, "address": None, "action": "many different requests"}
            self._counted[kind] = {**row, **({} if kind else shared), "times": 0 if kind else 1}
            return row if kind else None
        counted["times"] += 1
        return None

    def drain(self, *, force: bool = False) -> list[Row]:
        """Return one row per repeated kind once the window has passed, or now if forced."""
        if not force and self.clock() < self._window_start + _WINDOW_S:
            return []
        rows = [row for row in self._counted.values() if row["times"]]
        self._counted = {}
        return rows


class Audit:
    """Writes audit rows asynchronously. Used on the event loop only."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.audit
        self._repeats = RepeatCounter()
        self._producer: Producer | None = None
        self._topic_ready = False
        self._pending: list[Row] = []
        self.lost = 0

    def append(self, row: Row) -> None:
        """Write a row, or keep it until the topic exists."""
        if not self._topic_ready:
            self._pending.append(row)
            self.lost += max(0, len(self._pending) - _MAX_PENDING)
            del self._pending[:-_MAX_PENDING]
            return
        self._write(row)

    def append_counted(self, row: Row) -> None:
        """Write a row for an event that anybody can cause often; repeats are counted."""
        if (now := self._repeats.add(row)) is not None:
            self.append(now)

    def tick(self) -> None:
        """Write the counted repeats; called every second."""
        for row in self._repeats.drain():
            self.append(row)
        if self._producer is not None:
            self._producer.poll(0)

    def on_topic_ready(self) -> None:
        """Write the pending rows, now that the topic exists."""
        self._topic_ready = True
        pending, self._pending = self._pending, []
        for row in pending:
            self._write(row)

    def close(self, limit_s: float) -> None:
        """Write everything that is left, within a time limit."""
        for row in self._repeats.drain(force=True):
            self.append(row)
        if self._producer is not None and self._producer.flush(limit_s):
            log.warning("audit rows were not written before shutdown", topic=self._topic)

    def _write(self, row: Mapping[str, Any]) -> None:
        try:
            if self._producer is None:
                config = {
                    "message.timeout.ms": _DELIVERY_TIMEOUT_S * 1000,
                    "queue.buffering.max.messages": 10000,
                }
                self._producer = self._kafka.producer(**config)
            value = json.dumps(row).encode()
            self._producer.produce(self._topic, value, on_delivery=self._on_delivery)
            self._producer.poll(0)
        except (KafkaException, BufferError) as error:
            self._count_lost(error)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._count_lost(error.str())

    def _count_lost(self, why: object) -> None:
        self.lost += 1
        if self.lost & (self.lost - 1) == 0:  # log at 1, 2, 4, 8, … only
            log.error("audit rows lost", topic=self._topic, lost=self.lost, why=str(why))
