"""Checks of topics: the sources, the control topic, and livejoin's own that last."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.core import start_position
from livejoin.core.own_topics import NEEDED_CONFIGS, Kind
from livejoin.doctor.findings import Finding, bad, failed, ok, warning
from livejoin.errors import TopicError
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.topic_cleanup import Cleanup, age_text, control_topic_warnings

_SHORT_S = 7 * 86400.0  # Kafka's default: less was chosen for data that need not be read again
_BY_ADMINISTRATOR = "own_topics.create is false: `livejoin topics plan` prints the command."


class SourceCheck:
    """Checks the sources of a start, and counts their partitions."""

    def __init__(self, kafka: Kafka, topics: Iterable[str], starts: Mapping[str, str]) -> None:
        self._kafka = kafka
        self._topics = list(topics)  # in the order of `starts`
        self._starts = starts
        self._partitions: dict[str, int] = {}

    @property
    def partitions(self) -> int | None:
        """Partitions of all sources; None if one cannot be read."""
        known = len(self._partitions) == len(self._topics)
        return sum(self._partitions.values()) if known else None

    def check(self) -> Iterator[Finding]:
        """Check each source."""
        for (source, start), name in zip(self._starts.items(), self._topics, strict=True):
            check = f"source {source}"
            topic = self._kafka.describe_readable([name])[name]
            if isinstance(topic, str):
                yield bad(
                    check,
                    topic,
                    "Create it, grant livejoin Read on it, or name another one"
                    f" in topics.{source}.",
                )
                continue
            self._partitions[name] = len(topic.partitions)
            configs = self._kafka.topic_configs(name)
            yield ok(check, f"{_summary(topic)}; {_configs_text(configs)}")
            if configs is not None:
                yield from _source_warnings(check, name, configs, start)


def check_control_topic(kafka: Kafka, name: str) -> Iterator[Finding]:
    """Check that control messages can be read and written, and are kept."""
    found = _check_own_topic(kafka, name, "control", is_read=True)
    yield found
    if found.severity == "ok":
        for one in control_topic_warnings(kafka, name):
            yield warning(found.check, one.what, one.advice)


def check_own_topics(
    kafka: Kafka, topics: Mapping[Kind, str], *, is_read: bool
) -> Iterator[Finding]:
    """Check those of livejoin's own topics that last; some are read only where the ledger is."""
    good = []
    for kind, name in topics.items():
        finding = _check_own_topic(kafka, name, kind, is_read=is_read)
        if finding.severity == "ok":
            good.append(finding.found)
        else:
            yield finding
        if finding.severity != "BAD":
            yield from _check_needed_configs(kafka, name, kind)
    if good:
        yield ok("own topics", "; ".join(good))


def _summary(topic: Topic) -> str:
    count = len(topic.partitions)
    rights = "" if topic.reports_rights else ", rights not reported by the brokers"
    return f"{topic.name} has {count} partition{'s' if count > 1 else ''}{rights}"


def _configs_text(configs: Mapping[str, str] | None) -> str:
    if configs is None:
        return "retention not reported (no right DescribeConfigs)"
    return f"{Cleanup.of(configs)}, timestamps are {configs.get('message.timestamp.type', '?')}"


def _source_warnings(
    check: str, name: str, configs: Mapping[str, str], start: str
) -> Iterator[Finding]:
    """Warn where a later build finds fewer records than this one."""
    cleanup = Cleanup.of(configs)
    if start == "latest":
        return
    read_from = start_position.start_time(start, time.time())
    needed_s = _SHORT_S if read_from is None else time.time() - read_from
    rebuilt = "Every build reads the topic anew: rows that a table shows now may be missing then."
    if cleanup.is_compacted:
        yield warning(
            check,
            f"{name} is compacted: of records with one key only the newest is"
            " kept, though livejoin ignores keys",
            f"{rebuilt} Harmless if the key is the userId.",
        )
    if cleanup.keeps_s < needed_s:
        yield warning(check, f"{name} keeps records for {age_text(cleanup.keeps_s)} only", rebuilt)
    if math.isfinite(cleanup.keeps_bytes):
        yield warning(
            check, f"{name} keeps {cleanup.keeps_bytes:,.0f} bytes per partition only", rebuilt
        )


def _check_own_topic(kafka: Kafka, name: str, kind: Kind, *, is_read: bool) -> Finding:
    """Check that a topic that livejoin creates is there or can be, and may be used."""
    check = "control topic" if kind == "control" else "own topics"
    try:
        topic = kafka.describe([name]).get(name)
    except TopicError as error:
        return failed(check, error)
    if topic is None:
        if kafka.own_topics.create:
            return ok(check, f"{name} is created at the first start")
        return bad(check, f'topic "{name}" does not exist', _BY_ADMINISTRATOR)
    rights = {"Read": topic.readable or not is_read, "Write": topic.writable}
    if missing := [right for right, is_granted in rights.items() if not is_granted]:
        advice = "`livejoin topics plan` prints the rights that livejoin needs."
        return bad(check, f"no right {' and '.join(missing)} on {name}", advice)
    if len(topic.partitions) > 1 and kind != "control":
        return _several_partitions(kafka, topic, kind)
    return ok(check, _summary(topic))


def _several_partitions(kafka: Kafka, topic: Topic, kind: Kind) -> Finding:
    """A start recreates such a topic if it is empty, but not that of the election."""
    check, found = "own topics", f"{topic.name} has {len(topic.partitions)} partitions, needs one"
    if kind == "leader":
        return bad(
            check,
            f"{found}: several processes could lead",
            "Stop all livejoins of this name and delete it; the next start recreates it.",
        )
    if not kafka.own_topics.create:
        return bad(check, found, _BY_ADMINISTRATOR)
    offsets = (kafka.offsets([topic], of) for of in (OffsetSpec.latest(), OffsetSpec.earliest()))
    if len({str(one) for one in offsets}) > 1:
        return bad(
            check,
            f"{found}, and has records",
            "Stop livejoin and delete it, with its records; the next start recreates it.",
        )
    return warning(check, found, "It is empty, so the next start recreates it.")


def _check_needed_configs(kafka: Kafka, name: str, kind: Kind) -> Iterator[Finding]:
    configs = kafka.topic_configs(name) or {}
    for config, value in kafka.own_topics.config_of(kind).items():
        if config in NEEDED_CONFIGS and configs.get(config, value) != value:
            yield warning(
                "own topics",
                f"{name} has {config}={configs[config]}, and needs {value}",
                "A start sets it if it has the right AlterConfigs; else records may expire.",
            )
