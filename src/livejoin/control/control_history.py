"""Reads the history of a control topic: each partition in portions, up to where it ended.

What the messages come to is decided in `core/control_records.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

from livejoin.core.control_records import ControlRecord
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.records import OffsetRange, ReaderEvents, poll_batch

_MAX_RECORDS = 1000  # of each partition in memory
_POLL_S = 0.1
_ANSWER_S = 5.0  # without a record and without the end of the partition


@dataclass
class HistoryReader:
    """Reads the partitions with one consumer, which has one of them at a time.

    Merging them by time takes the next record of every partition. A consumer of all of them returns
    their records in any order, perhaps all of one partition first, which might not fit in memory.
    """

    consumer: Consumer
    topic: str
    parse: Callable[[Sequence[Message]], Iterator[ControlRecord]]
    _assigned: int | None = field(default=None, init=False)
    _at_end: bool = field(default=False, init=False)  # of the assigned partition

    def records(self, partition: int, within: OffsetRange) -> Iterator[ControlRecord]:
        """The records of one partition; those of several can be read in turn."""
        at = within.start
        while at < within.end:
            portion = self._next_portion(partition, at, within.end)
            if not portion:
                return  # the last offsets are transaction markers, which consumers do not get
            at = (portion[-1].offset() or 0) + 1
            # what has been written since counts as a new message
            yield from self.parse([one for one in portion if (one.offset() or 0) < within.end])

    def _next_portion(self, partition: int, at: int, end: int) -> list[Message]:
        """The next records from an offset on; none at the end of the partition.

        A broker that lags behind reports an end that is lower than the one that is asked for.
        """
        if self._assigned != partition:
            self.consumer.assign([TopicPartition(self.topic, partition, at)])
            self._assigned, self._at_end = partition, False
        silent_s = 0.0
        while not self._at_end:
            events = ReaderEvents(on_end=lambda _topic, offset: self._on_end(offset, end))
            if portion := poll_batch(self.consumer, _MAX_RECORDS, _POLL_S, events):
                return portion
            silent_s += _POLL_S
            if silent_s > _ANSWER_S:
                raise KafkaUnavailable(
                    f'partition {partition} of control topic "{self.topic}" does not respond'
                )
        return []

    def _on_end(self, offset: int, end: int) -> None:
        self._at_end = self._at_end or offset >= end
