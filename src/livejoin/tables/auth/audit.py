"""The audit: who did what, from where, before and after, with what outcome.

Rows go to a topic, and what stands there is the table `audit` of every server. A flood of refused
requests is a few rows: what is alike within a moment is counted in one.
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
_MAX_KINDS = 50  # kinds that get rows of their own within a moment
_MAX_PENDING = 1000  # rows that wait for the topic to be there
_MAX_TEXT_CHARS = 1024
_DELIVERY_TIMEOUT_S = 300  # how long an outage of Kafka may be until rows are lost

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
    """A row of the audit as it stands in the topic. What was sent by others is cut."""
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
    cut = {name: text[:_MAX_TEXT_CHARS] or None for name, text in texts.items()}
    return {"ts": int(time.time() * 1000), **cut, "times": 1}


@dataclass
class RepeatCounter:
    """What happened a moment ago: the first of a kind gets a row, the others are counted."""

    clock: Callable[[], float] = time.monotonic
    _window_start: float = 0.0
    _counted: dict[tuple[str, ...], Row] = field(default_factory=dict)

    def add(self, one: Row) -> Row | None:
        """Note one; the row to be written now, if it is the first of its kind."""
        if not self._counted:
            self._window_start = self.clock()
        named = tuple(str(one[name]) for name in ("who", "address", "action", "outcome", "detail"))
        kind = named if named in self._counted or len(self._counted) < _MAX_KINDS else ()
        known = self._counted.get(kind)
        if known is None:
            other = {"who": None, "address": None, "action": "many different requests"}
            self._counted[kind] = {**one, **({} if kind else other), "times": 0 if kind else 1}
            return one if kind else None
        known["times"] += 1
        return None

    def drain(self, *, whole: bool = False) -> list[Row]:
        """Once the moment is over, one row for each kind that came again in it."""
        if not whole and self.clock() < self._window_start + _WINDOW_S:
            return []
        rows = [one for one in self._counted.values() if one["times"]]
        self._counted = {}
        return rows


class Audit:
    """Writes rows without waiting. Lives on the thread that owns the tables."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._topic = names.audit
        self._repeats = RepeatCounter()
        self._producer: Producer | None = None
        self._topic_ready = False
        self._pending: list[Row] = []
        self.lost = 0

    def append(self, one: Row) -> None:
        """Add a row."""
        if not self._topic_ready:
            self._pending.append(one)
            self.lost += max(0, len(self._pending) - _MAX_PENDING)
            del self._pending[:-_MAX_PENDING]
            return
        self._write(one)

    def append_counted(self, one: Row) -> None:
        """Add a row of what anybody can do often, to be refused say; what is alike is counted."""
        if (now := self._repeats.add(one)) is not None:
            self.append(now)

    def tick(self) -> None:
        """Write what was counted; called every second."""
        for one in self._repeats.drain():
            self.append(one)
        if self._producer is not None:
            self._producer.poll(0)

    def on_topic_ready(self) -> None:
        """The topic exists: what waits for it can be written."""
        self._topic_ready = True
        waiting, self._pending = self._pending, []
        for one in waiting:
            self._write(one)

    def close(self, limit_s: float) -> None:
        """Have all of it written, if that is possible in time."""
        for one in self._repeats.drain(whole=True):
            self.append(one)
        if self._producer is not None and self._producer.flush(limit_s):
            log.warning("rows of the audit were not written", topic=self._topic)

    def _write(self, one: Mapping[str, Any]) -> None:
        try:
            if self._producer is None:
                late = {
                    "message.timeout.ms": _DELIVERY_TIMEOUT_S * 1000,
                    "queue.buffering.max.messages": 10000,
                }
                self._producer = self._kafka.producer(**late)
            value = json.dumps(one).encode()
            self._producer.produce(self._topic, value, on_delivery=self._on_delivery)
            self._producer.poll(0)
        except (KafkaException, BufferError) as error:
            self._count_lost(error)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._count_lost(error.str())

    def _count_lost(self, why: object) -> None:
        self.lost += 1
        if self.lost & (self.lost - 1) == 0:  # 1, 2, 4, 8, …: not one line for each
            log.error("rows of the audit are lost", topic=self._topic, lost=self.lost, why=str(why))
