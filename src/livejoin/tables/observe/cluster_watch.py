"""Whether a cluster answers, where there are several.

The follower notices by itself that livejoin's own cluster is gone, but not that it stands still.
"""

import threading
from collections.abc import Callable
from functools import partial

import structlog

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.tables.observe.liveness import Liveness

log = structlog.get_logger()

# together below 10 s: an outage is named before a missing leader, which follows from it
_CHECK_S = 4.0
_ATTEMPT_S = 4.0


class ClusterWatch:
    """Asks one cluster periodically, and reports the answers to the event loop."""

    def __init__(
        self,
        cluster: Kafka,
        liveness: Liveness,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._cluster = cluster
        self._liveness = liveness
        self._post = post
        self._trouble: str | None = None  # not asked yet

    def run(self, stop: threading.Event) -> None:
        """Watch until stopped."""
        while True:
            self._check()
            if stop.wait(_CHECK_S):
                return

    def _check(self) -> None:
        section, why = self._cluster.section, ""
        try:
            self._cluster.wait_until_reachable(_ATTEMPT_S)
        except KafkaUnavailable as error:
            why = error.message
        if why == self._trouble:
            return
        if why and not self._trouble:
            log.warning("a cluster does not answer", section=section, why=why)
        elif self._trouble and not why:
            log.info("the cluster answers again", section=section)
        self._trouble = why
        self._post(partial(self._liveness.set_cluster, section, why))
