"""Three clusters with three logins: livejoin's own, that of the sources, that of the control topic.

Each is a broker with a certificate authority of its own.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from livejoin.kafka.clusters import SECTIONS, Clusters, Section
from rig.secure import RestartableBroker

WAYS: Mapping[Section, str] = {
    "kafka": "SSL",
    "kafka_data": "SCRAM-SHA-512",
    "kafka_control": "PLAIN",
}


@dataclass(frozen=True)
class ThreeClusters:
    """The brokers by section of the settings, and the clusters that a livejoin is started with."""

    brokers: Mapping[Section, RestartableBroker]
    clusters: Clusters


@contextlib.contextmanager
def three_clusters(folder: Path) -> Iterator[ThreeClusters]:
    """Run three clusters."""
    with contextlib.ExitStack() as stack:
        brokers: dict[Section, RestartableBroker] = {}
        for section in SECTIONS:
            brokers[section] = RestartableBroker(folder / section)
            stack.callback(brokers[section].close)
        own, data, control = (brokers[s].secure.kafka_for(WAYS[s]) for s in SECTIONS)
        yield ThreeClusters(brokers, Clusters(own, data, control))
