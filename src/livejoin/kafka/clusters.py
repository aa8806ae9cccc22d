"""The clusters that a livejoin uses: its own, that of the sources, that of the control topic.

Each has a block of properties. Where a role has none, its cluster is livejoin's own, and the same
object stands for both.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from livejoin.core.own_topics import OwnTopicRules
from livejoin.kafka import properties
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.topic_cleanup import KafkaWarning, control_topic_warnings

Section = Literal["kafka", "kafka_data", "kafka_control"]
FIRST: Section = "kafka"  # the block that is always there
OTHERS: tuple[Section, ...] = ("kafka_data", "kafka_control")
SECTIONS = (FIRST, *OTHERS)

ROLES: Mapping[Section, str] = {
    "kafka": "cluster of livejoin's own topics",
    "kafka_data": "cluster of the sources",
    "kafka_control": "cluster of the control topic",
}


@dataclass(frozen=True)
class Clusters:
    """One cluster for each role, or the same one for several."""

    own: Kafka  # ledger, changelogs and everything else that is livejoin's
    data: Kafka  # source topics
    control: Kafka  # the control topic, and the replies to its messages

    @classmethod
    def connect(
        cls, blocks: Mapping[Section, properties.Values], rules: OwnTopicRules | None = None
    ) -> "Clusters":
        """Clusters from the blocks of the settings. Equal blocks are one cluster."""
        given = {section: blocks.get(section, blocks[FIRST]) for section in SECTIONS}
        same = {
            section: next(
                other
                for other in SECTIONS
                if properties.reveal(given[other]) == properties.reveal(block)
            )
            for section, block in given.items()
        }
        roles = {first: [ROLES[s] for s in SECTIONS if same[s] == first] for first in same.values()}
        if len(roles) == 1:
            return cls.single(Kafka(blocks[FIRST], rules))
        found = {
            section: Kafka(given[section], rules, section=section, role=" and ".join(each))
            for section, each in roles.items()
        }
        own, data, control = (found[same[section]] for section in SECTIONS)
        return cls(own, data, control)

    @classmethod
    def single(cls, kafka: Kafka) -> "Clusters":
        """One cluster for everything."""
        return cls(kafka, kafka, kafka)

    @property
    def each(self) -> tuple[Kafka, ...]:
        """Every cluster once, livejoin's own first."""
        return tuple(dict.fromkeys((self.own, self.data, self.control)))

    @property
    def has_separate_data(self) -> bool:
        """Whether the source topics are on another cluster than livejoin's own."""
        return self.data is not self.own

    @property
    def has_separate_control(self) -> bool:
        """Whether the control topic is on another cluster than livejoin's own."""
        return self.control is not self.own

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options that a JVM needs for its Kafka clients."""
        return properties.jvm_options(kafka.token_url for kafka in self.each)

    def warnings(self, control_topic: str, limit_s: float) -> list[KafkaWarning]:
        """Warnings about what only the brokers know. Raises if a cluster does not answer."""
        ids = {one.section: one.wait_until_reachable(limit_s).cluster_id for one in self.each}
        return [*same_clusters(ids), *control_topic_warnings(self.control, control_topic)]

    def stop_waiting(self) -> None:
        """From now on give up after one attempt: the process is stopping."""
        for kafka in self.each:
            kafka.stop_waiting()


def overlaps(blocks: Mapping[Section, properties.Values]) -> list[str]:
    """Warnings about blocks that name the same servers with different properties."""
    servers = {section: _servers(block) for section, block in blocks.items()}
    pairs = itertools.combinations(blocks, 2)
    return [
        f"{one} and {other} name the same servers ({min(shared)}) with different properties:"
        f" leave {other} out if they are one cluster with one login"
        for one, other in pairs
        if (shared := servers[one] & servers[other])
        and properties.reveal(blocks[one]) != properties.reveal(blocks[other])
    ]


def same_clusters(ids: Mapping[str, str | None]) -> list[KafkaWarning]:
    """Warnings about sections with different properties whose clusters have the same id."""
    return [
        KafkaWarning(
            f"{one} and {other} are one cluster ({ids[one]}) with different properties, which"
            " livejoin treats as two",
            f"Leave {other} out if one login has all rights.",
        )
        for one, other in itertools.combinations(ids, 2)
        if ids[one] and ids[one] == ids[other]
    ]


def _servers(block: properties.Values) -> set[str]:
    given = properties.client_properties(properties.reveal(block)).librdkafka
    return set(filter(None, given.get(properties.SERVERS, "").split(",")))
