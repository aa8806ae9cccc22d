"""Whether the clusters of the sources and of the control topic answer, where they are apart.

The follower notices by itself if livejoin's own cluster does not.
"""

import threading
from collections.abc import Callable
from functools import partial

import structlog

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.tables.observe.liveness import Liveness

log = structlog.get_logger()

_CHECK_S = 5.0
_ATTEMPT_S = 5.0


class ClusterWatch:
    """Asks each of them periodically, and reports the answers to the event loop."""

    def __init__(
        self,
        clusters: Clusters,
        liveness: Liveness,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._others = clusters.each[1:]
        self._liveness = liveness
        self._post = post
        self._troubles: dict[str, str] = {}

    def run(self, stop: threading.Event) -> None:
        """Watch until stopped."""
        while True:
            for cluster in self._others:
                self._check(cluster)
            if stop.wait(_CHECK_S):
                return

    def _check(self, cluster: Kafka) -> None:
        why = ""
        try:
            cluster.wait_until_reachable(_ATTEMPT_S)
        except KafkaUnavailable as error:
            why = error.message
        if why != self._troubles.get(cluster.section):
            if why:
                log.warning("a cluster does not answer", section=cluster.section, why=why)
            elif cluster.section in self._troubles:
                log.info("the cluster answers again", section=cluster.section)
            self._troubles[cluster.section] = why
            self._post(partial(self._liveness.set_cluster, cluster.section, why))
