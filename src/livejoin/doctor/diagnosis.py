"""Goes through everything that a start needs, in its order: this machine, then each cluster.

A check that fails skips the later ones of its cluster, which would only wait.
"""

from collections.abc import Callable, Iterable, Iterator

from livejoin.config.settings import Settings
from livejoin.core import own_topics
from livejoin.core.names import Names
from livejoin.doctor import machine, network, rights, topics, trial
from livejoin.doctor.findings import Finding, failed, ok, skipped, warning
from livejoin.errors import KafkaUnavailable, LivejoinError, SettingsError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters, same_clusters

_WAY = ("resolve", "connect", "login", "advertised")  # without these nothing else works
_ID_S = 2.0  # from a cluster that has just answered
_NO_CLOCK = (
    "not checked: a broker tells its time to writers only, and livejoin creates no topic here"
    " to try it"
)

Check = Callable[[], Iterable[Finding]]


def diagnose(load: Callable[[], Settings], source: str, *, is_demo: bool) -> Iterator[Finding]:
    """Yield what is found. `source` says where the settings come from."""
    yield from machine.check_programs()
    try:
        chosen = load()
        clusters = Clusters.connect(chosen.kafka_blocks, chosen.own_topics.rules)
    except SettingsError as error:
        yield failed("settings", error)
        yield skipped("kafka", "the settings are not valid")
        return
    yield ok("settings", source)
    for text in chosen.warnings:
        yield warning("settings", text)
    yield from machine.check_port(chosen, is_ours=is_demo)
    yield from machine.check_folders(chosen, is_ours=is_demo)
    yield from _check_clusters(chosen, clusters)


def _label(clusters: Clusters, cluster: Kafka) -> str:
    """The section of the settings that names a cluster, and its roles."""
    roles = {"own topics": clusters.own, "sources": clusters.data, "control": clusters.control}
    return f"{cluster.section} ({', '.join(role for role in roles if roles[role] is cluster)})"


def _check_clusters(chosen: Settings, clusters: Clusters) -> Iterator[Finding]:
    sources = topics.SourceCheck(
        clusters.data, tuple(chosen.initial_choice.topics.values()), chosen.start_positions
    )
    reached: dict[str, Kafka] = {}
    for cluster in clusters.each:
        label = _label(clusters, cluster)
        for finding in _in_order(_checks(chosen, clusters, cluster, sources)):
            yield finding._replace(cluster=label)
            if (finding.check, finding.severity) == ("login", "ok"):
                reached[cluster.section] = cluster
    try:
        ids = {name: one.wait_until_reachable(_ID_S).cluster_id for name, one in reached.items()}
    except KafkaUnavailable as error:
        yield failed("clusters", error)
    else:
        for same in same_clusters(ids):
            yield warning("clusters", same.what, same.advice)
    yield machine.check_task_slots(chosen, sources.partitions)


def _checks(
    chosen: Settings, clusters: Clusters, cluster: Kafka, sources: topics.SourceCheck
) -> Iterator[tuple[str, Check]]:
    """The checks of a cluster by name, as far as something of livejoin's is on it."""
    names, control = Names(chosen.name), chosen.topics.control
    yield "resolve", lambda: network.check_names(cluster)
    yield "connect", lambda: network.check_connections(cluster)
    yield "login", lambda: network.check_login(cluster)
    yield "advertised", lambda: network.check_advertised(cluster)
    lasting = own_topics.lasting_topics(names, control)
    del lasting["control"]
    with_control: dict[own_topics.Kind, str] = {"replies": lasting.pop("replies")}
    own = lasting if clusters.has_separate_control else lasting | with_control
    if cluster is clusters.own:
        yield "own prefix", lambda: trial.check_own_prefix(cluster, names)
        yield "own topics", lambda: topics.check_own_topics(cluster, own, is_read=True)
        yield "election", lambda: rights.check_election(cluster, names)
    else:
        yield "clock", lambda: [skipped("clock", _NO_CLOCK)]
    if cluster is clusters.data:
        if clusters.has_separate_data:
            yield "group", lambda: [rights.check_group(cluster, names.group("pins"))]
        yield "sources", sources.check
    if cluster is clusters.control:
        if clusters.has_separate_control:
            yield "group", lambda: [rights.check_group(cluster, names.group("control"))]
            yield (
                "own topics",
                lambda: topics.check_own_topics(cluster, with_control, is_read=False),
            )
        yield "control topic", lambda: topics.check_control_topic(cluster, control)


def _in_order(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Run checks until one fails that the others need."""
    failure = ""
    for name, check in checks:
        if failure:
            yield skipped(name, f"not tried: {failure} failed")
            continue
        try:
            for finding in check():
                yield finding
                if finding.severity == "BAD" and name in _WAY:
                    failure = name
        except LivejoinError as error:
            yield failed(name, error)
            if isinstance(error, KafkaUnavailable):
                failure = name
