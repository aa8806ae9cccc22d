"""The topics that generations read: whether they are what they were, before a start and after."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from confluent_kafka.admin import OffsetSpec

from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable, KafkaUnavailable, QueryFailed, TopicUnusable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.errors import topic_not_authorized, topic_not_found
from livejoin.pipeline.checkpoints import CommittedOffsets

_LOOK_S = 5.0


class SourceListener(Protocol):
    """Who is told what becomes of the topics."""

    def sources_checked(self, generation: int, why: str) -> None:
        """Why one of its topics cannot be read, or nothing."""

    def restart_required(self, generation: int, why: str) -> None:
        """Its query has to be started again, through no fault of its own."""

    def partitions_added(self, generation: int, sources: Mapping[str, Reading]) -> None:
        """A topic has more partitions: what it would read with them."""

    def unrecoverable(self, generation: int, why: str) -> None:
        """What it has read is not what stands there now."""


def check_fingerprint(generation: Generation, now: str) -> None:
    """Its checkpoint must be one of the same query."""
    if generation.fingerprint != now:
        raise GenerationUnrecoverable(f"its query was {generation.fingerprint} and is {now} now")


def source_topics(kafka: Kafka, generation: Generation) -> dict[str, Topic]:
    """Its topics by source: those that it was made for, and readable."""
    readings = generation.sources
    found = kafka.describe(reading.topic for reading in readings.values())
    for reading in readings.values():
        topic = found.get(reading.topic)
        if topic is None:
            raise topic_not_found(reading.topic)
        if topic.id != reading.topic_id:
            raise GenerationUnrecoverable(f'topic "{reading.topic}" was deleted and made again')
        if not topic.readable:
            raise topic_not_authorized(reading.topic)
    return {source: found[reading.topic] for source, reading in readings.items()}


def check_own_topics(kafka: Kafka, names: Names, generation: Generation) -> None:
    """Its changelog and feed are those that were made for it, and the changelog can be written.

    A broker may have made a topic of the same name. Spark learns of a refused write when it writes
    again.
    """
    if not generation.has_topics:
        raise GenerationUnrecoverable(
            "it was built by an earlier livejoin, and nobody knows whose its topics are"
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
            raise GenerationUnrecoverable(f"its {kind} was deleted and made again")
    if not found[changelog].writable:
        raise QueryFailed(
            f'Authorization failed: topic "{changelog}" may not be written',
            hint="Ask for the right to write it.",
        )


def resume_offsets(
    kafka: Kafka,
    generation: Generation,
    topics: Mapping[str, Topic],
    reached: CommittedOffsets | None,
) -> dict[str, dict[int, int]]:
    """From where its query will read, by source; what stands from there on must still be there."""
    if reached is None and generation.ready_at is not None:
        raise GenerationUnrecoverable("its checkpoint is gone")
    first = kafka.offsets(topics.values(), OffsetSpec.earliest())
    starts = {}
    for source, reading in generation.sources.items():
        ends = (reached or {}).get(reading.topic, {})
        # partitions that are new are read from their beginning
        at = {p: ends.get(p, reading.start.get(p, 0)) for p in topics[source].partitions}
        for partition, offset in first[reading.topic].items():
            if offset > at[partition]:
                lost = f"{at[partition]} to {offset - 1}"
                where = f'partition {partition} of topic "{reading.topic}"'
                raise GenerationUnrecoverable(
                    f"records {lost} of {where} were deleted before they were read"
                )
        starts[source] = at
    return starts


def with_new_partitions(
    generation: Generation, topics: Mapping[str, Topic]
) -> dict[str, Reading] | None:
    """What a generation would read with the partitions that are new, if any are."""
    more = {s: _add_partitions(reading, topics[s]) for s, reading in generation.sources.items()}
    return None if more == generation.sources else more


def watch(
    kafka: Kafka,
    names: Names,
    running: Callable[[], Iterable[Generation]],
    listener: SourceListener,
    stop: threading.Event,
) -> None:
    """Look at the topics of the running generations now and then, until told to stop."""
    refused: set[int] = set()
    while not stop.wait(_LOOK_S):
        there = list(running())
        refused &= {generation.number for generation in there}  # a new run knows nothing of it
        for generation in there:
            number = generation.number
            try:
                topics = source_topics(kafka, generation)
                check_own_topics(kafka, names, generation)
            except GenerationUnrecoverable as error:
                listener.unrecoverable(number, error.message)
            except TopicUnusable as error:
                listener.sources_checked(number, error.message)
            except QueryFailed as error:
                refused.add(number)
                listener.sources_checked(number, error.message)
            except KafkaUnavailable:
                continue  # the tables say so, and queries wait
            else:
                if number in refused:
                    # if anything was refused, nobody else would have it written again
                    refused.remove(number)
                    listener.restart_required(
                        number, "its changelog could not be written for a while"
                    )
                listener.sources_checked(number, "")
                if more := with_new_partitions(generation, topics):
                    listener.partitions_added(number, more)


def _add_partitions(reading: Reading, topic: Topic) -> Reading:
    new = {p: 0 for p in topic.partitions if p not in reading.start}
    return replace(reading, start={**reading.start, **new}) if new else reading
