"""The pipeline as the control plane sees it: resolve, start, stop, catch up, clean up.

Puts the parts of this room together.
"""

from collections.abc import Callable, Mapping

from livejoin import failpoints
from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, Spoilt
from livejoin.kafka import MAX_RECORD_BYTES, Kafka, missing, wait_until_reachable
from livejoin.pipeline import positions
from livejoin.pipeline.catch_up import CatchUp
from livejoin.pipeline.queries import Queries

_CHANGELOG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",  # a follower that starts within an hour sees every version
    "max.message.bytes": str(MAX_RECORD_BYTES),
}


class Pipeline:
    """Queries of generations, each with its changelog topic and its checkpoint."""

    def __init__(
        self, kafka: Kafka, names: Names, queries: Queries, start: Mapping[str, str]
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._queries = queries
        self._start = start

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """Where a new generation reads, and what else its checkpoint will depend on."""
        start = {**self._start, **generation.start}
        sources = positions.resolve(self._kafka, self._names, generation.choice, start)
        return sources, self._queries.fingerprint

    def start(self, generation: Generation) -> None:
        """Have its changelog, and its query running. Spoilt where that would not be the same."""
        self._check(generation)
        failpoints.visit("before-changelog")
        self._kafka.make(self._names.changelog(generation.number), _CHANGELOG)
        failpoints.visit("after-changelog")
        self._queries.start(generation)
        failpoints.visit("after-start")

    def _check(self, generation: Generation) -> None:
        """What its checkpoint depends on must be what it was."""
        now = self._queries.fingerprint
        if generation.fingerprint != now:
            raise Spoilt(f"its query was {generation.fingerprint} and is {now} now")
        readings = generation.sources.values()
        found = self._kafka.describe(reading.topic for reading in readings)
        for reading in readings:
            if reading.topic not in found:
                raise missing(reading.topic)
            if found[reading.topic].id != reading.topic_id:
                raise Spoilt(f'topic "{reading.topic}" was deleted and made again')

    def stop(self, generation: int) -> None:
        """Have its query not running."""
        self._queries.stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Have no changelog and no checkpoint of any other generation up to the last."""
        topics = {self._names.changelog_of(topic): topic for topic in self._kafka.topics()}
        gone = {n: t for n, t in topics.items() if n is not None and n <= last and n not in numbers}
        for topic in gone.values():
            failpoints.visit("before-delete")
            self._kafka.delete([topic])
            failpoints.visit("after-delete")
        for number in self._queries.checkpoints():
            if number <= last and number not in numbers:
                self._queries.forget(number)
                failpoints.visit("after-checkpoint")

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        """Follow it to its pins: the offset at which its tables are complete; None when stopped."""
        return CatchUp(
            self._kafka,
            self._names,
            generation,
            finished=lambda: self._queries.finished_offsets(generation.number),
            progressed=progressed,
            stopped=stopped,
        ).follow()

    def reachable(self) -> bool:
        """Whether Kafka answers now."""
        try:
            wait_until_reachable(self._kafka, 0)
        except LivejoinError:
            return False
        return True
