"""Checks the topics of generations, before a start and while they run."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable, KafkaUnavailable, QueryFailed, TopicError
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.topic_errors import topic_not_authorized, topic_not_found

_CHECK_S = 5.0


class SourceListener(Protocol):
    """Receives changes of the topics of running generations."""

    def sources_checked(self, generation: int, why: str) -> None:
        """Why a topic cannot be used; empty if all can."""

    def sources_unreachable(self) -> None:
        """The cluster of the sources, apart from livejoin's own, does not answer."""

    def restart_required(self, generation: int, why: str) -> None:
        """The query must be restarted, though it has not failed."""

    def partitions_added(self, generation: int, sources: Mapping[str, Reading]) -> None:
        """A topic has new partitions; these sources include them."""

    def unrecoverable(self, generation: int, why: str) -> None:
        """The generation cannot continue with the topics that exist now."""


def check_fingerprint(generation: Generation, now: str) -> None:
    """Require that its checkpoint was written by the same query."""
    if generation.fingerprint != now:
        raise GenerationUnrecoverable(f"its query was {generation.fingerprint} and is {now} now")


def source_topics(kafka: Kafka, generation: Generation) -> dict[str, Topic]:
    """Its source topics; an error if one is missing, recreated or not readable."""
    readings = generation.sources
    found = kafka.describe(reading.topic for reading in readings.values())
    for reading in readings.values():
        topic = found.get(reading.topic)
        if topic is None:
            raise topic_not_found(reading.topic)
        if topic.id != reading.topic_id:
            raise GenerationUnrecoverable(f'topic "{reading.topic}" was deleted and recreated')
        if not topic.readable:
            raise topic_not_authorized(reading.topic)
    return {source: found[reading.topic] for source, reading in readings.items()}


def check_own_topics(kafka: Kafka, names: Names, generation: Generation) -> None:
    """Require that its changelog and bootstrap topic are its own, and the changelog is writable.

    A broker may have auto-created a topic of the same name. Spark would notice a missing
    authorization only at its next write.
    """
    if not generation.has_topics:
        raise GenerationUnrecoverable(
            "an earlier livejoin built it and did not record its topic ids"
        )
    changelog = names.changelog(generation.number)
    made = {changelog: ("changelog", generation.changelog_id)}
    if generation.feed_id:
        made[names.bootstrap(generation.number)] = "feed", generation.feed_id
    found = kafka.describe(made)
    for topic, (kind, made_id) in made.items():
        if topic not in found:
            raise GenerationUnrecoverable(f"its {kind} was deleted")
        if found[topic].id != made_id:
            raise GenerationUnrecoverable(f"its {kind} was deleted and recreated")
    if not found[changelog].writable:
        raise QueryFailed(
            f'not authorized to write topic "{changelog}"',
            hint="Grant livejoin's Kafka user WRITE on it; livejoin retries.",
        )


def with_new_partitions(
    generation: Generation, topics: Mapping[str, Topic]
) -> dict[str, Reading] | None:
    """A generation's sources with new partitions; None if there are none."""
    more = {s: _add_partitions(reading, topics[s]) for s, reading in generation.sources.items()}
    return None if more == generation.sources else more


def watch(
    clusters: Clusters,
    names: Names,
    running: Callable[[], Iterable[Generation]],
    listener: SourceListener,
    stop: threading.Event,
) -> None:
    """Check the topics of running generations periodically, until stopped."""
    not_writable: set[int] = set()
    while not stop.wait(_CHECK_S):
        generations = list(running())
        not_writable &= {generation.number for generation in generations}
        why = _data_cluster_trouble(clusters)
        for generation in generations:
            why = why or _check(clusters, names, generation, listener, not_writable)
            if why:
                listener.sources_checked(generation.number, why)
        if why:
            listener.sources_unreachable()


def _data_cluster_trouble(clusters: Clusters) -> str:
    """Why the cluster of the sources does not answer, if it is another one than livejoin's own.

    That one is reported by those who follow it.
    """
    if clusters.has_separate_data:
        try:
            clusters.data.wait_until_reachable(_CHECK_S)
        except KafkaUnavailable as error:
            return error.message
    return ""


def _check(
    clusters: Clusters,
    names: Names,
    generation: Generation,
    listener: SourceListener,
    not_writable: set[int],
) -> str:
    """Report on a generation; the result is why the cluster of the sources does not answer."""
    number = generation.number
    try:
        topics = source_topics(clusters.data, generation)
        check_own_topics(clusters.own, names, generation)
    except GenerationUnrecoverable as error:
        listener.unrecoverable(number, error.message)
    except TopicError as error:
        listener.sources_checked(number, error.message)
    except QueryFailed as error:
        not_writable.add(number)
        listener.sources_checked(number, error.message)
    except KafkaUnavailable:  # of livejoin's own cluster others report it; queries wait
        return _data_cluster_trouble(clusters)
    else:
        if number in not_writable:
            # only a restart writes records again that were refused meanwhile
            not_writable.remove(number)
            listener.restart_required(number, "its changelog was not writable for a while")
        listener.sources_checked(number, "")
        if more := with_new_partitions(generation, topics):
            listener.partitions_added(number, more)
    return ""


def _add_partitions(reading: Reading, topic: Topic) -> Reading:
    added = {p: 0 for p in topic.partitions if p not in reading.start}
    return replace(reading, start={**reading.start, **added}) if added else reading
