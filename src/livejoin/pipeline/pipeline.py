"""The pipeline as the control plane sees it: resolve, start, stop, catch up.

Puts the parts of this room together.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.core.spec import Choice
from livejoin.errors import LivejoinError
from livejoin.kafka import MAX_RECORD_BYTES, Kafka, wait_until_reachable
from livejoin.pipeline import positions
from livejoin.pipeline.catch_up import CatchUp
from livejoin.pipeline.queries import Queries

_CHANGELOG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",  # a follower that starts within an hour sees every version
    "max.message.bytes": str(MAX_RECORD_BYTES),
}


class Pipeline:
    """Queries of generations, each with its changelog topic."""

    def __init__(
        self, kafka: Kafka, names: Names, queries: Queries, start: Literal["earliest", "latest"]
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._queries = queries
        self._start = start

    def resolve(self, choice: Choice) -> Mapping[str, Reading]:
        """Where a new generation would read."""
        return positions.resolve(self._kafka, self._names, choice, self._start)

    def start(self, generation: Generation) -> None:
        """Have its changelog, and its query running."""
        self._kafka.make(self._names.changelog(generation.number), _CHANGELOG)
        self._queries.start(generation)

    def stop(self, generation: int) -> None:
        """Have its query not running."""
        self._queries.stop(generation)

    def catch_up(
        self, generation: Generation, progressed: Callable[[int], None], stopped: Callable[[], bool]
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
