"""D7: only the documented rights, over one cluster and three; then each missing in turn."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, OffsetSpec, ResourceType

from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Section
from rig import granting
from rig.authority import Authority
from rig.granting import Right
from rig.running import Running, running, until
from rig.secure import SecureBroker, secure

INPUTS = ("users", "accounts", "control")
WAYS: dict[Section, str] = {"kafka": "PLAIN", "kafka_data": "SSL", "kafka_control": "SCRAM-SHA-512"}


@dataclass(frozen=True)
class Estate:
    """One cluster for everything, or one for each block, each with a login of its own."""

    brokers: Mapping[Section, SecureBroker]

    @property
    def heading(self) -> str:
        """Where the page has its rights."""
        return granting.SEVERAL if len(self.brokers) > 1 else granting.ONE

    def open(self, section: Section) -> Kafka:
        """The cluster of a block, for the test itself."""
        return self.brokers.get(section, self.brokers["kafka"]).open

    def kafka_for(self, section: Section) -> Kafka:
        """The cluster of a block, as livejoin connects to it."""
        return self.brokers[section].kafka_for(WAYS[section])

    def grant(self, *rights: Right) -> None:
        for right in rights:
            granting.grant(self.open(right.section), [right.binding])

    def revoke(self, *rights: Right) -> None:
        for right in rights:
            granting.revoke(self.open(right.section), right.binding)

    def has_topic(self, section: Section, topic: str) -> bool:
        return topic in self.open(section).topics()

    def livejoin(self, folder: Path, name: str, command: str = "run") -> Running:
        """A livejoin with the blocks of this estate. Names of inputs do not begin with its name."""
        blocks = {one: dict(self.kafka_for(one).properties) for one in self.brokers}
        more: dict[str, Any] = {one: block for one, block in blocks.items() if one != "kafka"}
        return Running(
            self.kafka_for("kafka"), folder, command=command, name=name,
            topics=inputs(name), standby_s=0, **more,
        )  # fmt: skip


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def guarded(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureBroker]:
    """A broker that checks rights: the only one, or that of livejoin's own topics."""
    folder = tmp_path_factory.mktemp("own")
    with secure(folder, authority, more=granting.CHECKS_RIGHTS) as one:
        yield one


@pytest.fixture(scope="module")
def one(guarded: SecureBroker) -> Estate:
    return Estate({"kafka": guarded})


@pytest.fixture(scope="module")
def three(
    guarded: SecureBroker, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Estate]:
    folder = tmp_path_factory.mktemp("others")
    with (
        secure(folder / "data", authority, more=granting.CHECKS_RIGHTS) as data,
        secure(folder / "control", authority, more=granting.CHECKS_RIGHTS) as control,
    ):
        yield Estate({"kafka": guarded, "kafka_data": data, "kafka_control": control})


@pytest.fixture(params=["one", "three"])
def estate(request: pytest.FixtureRequest) -> Estate:
    found: Estate = request.getfixturevalue(request.param)
    return found


def inputs(name: str) -> dict[str, str]:
    return {topic: f"in-{name}.{topic}" for topic in INPUTS}


def prepared_livejoin(estate: Estate, folder: Path, name: str) -> Running:
    """A livejoin with a few records in its inputs and the documented rights."""
    cluster = estate.open("kafka_data")
    producer = cluster.producer()
    for source in ("users", "accounts"):
        topic = inputs(name)[source]
        cluster.create_topic(topic)
        producer.produce(topic, b'{"userId": "a"}')
    assert producer.flush(20) == 0
    estate.grant(*documented(estate, name))
    return estate.livejoin(folder, name)


def documented(estate: Estate, name: str) -> list[Right]:
    return granting.documented(estate.heading, name, inputs(name))


# --- they are enough


def test_d7_the_documented_rights_are_enough(estate: Estate, tmp_path: Path) -> None:
    name = f"d7-{len(estate.brokers)}"
    live = prepared_livejoin(estate, tmp_path, name)
    live.start()
    try:
        live.wait_live()
        assert live.request("api/v1/control", {"joinType": "inner"})["outcome"] in (
            "accepted",
            "building",
        )
        until(lambda: live.request("api/v1/status")["joinType"] == "inner", "the other join")
        until(
            lambda: not estate.has_topic("kafka", f"{name}.changelog.1"), "the old one is removed"
        )
        replies = f"{name}.replies"
        until(lambda: record_count(estate.open("kafka_control"), replies) > 1, "replies")
    finally:
        assert live.stop() == 0


def test_d7_a_further_server_needs_less(estate: Estate, tmp_path: Path) -> None:
    name = f"d7-serve-{len(estate.brokers)}"
    live = prepared_livejoin(estate, tmp_path / "run", name)
    live.start()
    try:
        live.wait_live()
    finally:
        assert live.stop() == 0
    estate.revoke(*documented(estate, name))
    estate.grant(*rights_of_a_server(estate, name))
    blocks = {one: dict(estate.kafka_for(one).properties) for one in estate.brokers}
    more: dict[str, Any] = {one: block for one, block in blocks.items() if one != "kafka"}
    with running(
        estate.kafka_for("kafka"), tmp_path / "serve", command="serve", name=name,
        topics=inputs(name), **more,
    ) as server:  # fmt: skip
        server.wait_live()
        assert len(server.table("final_ui")) == 1
        written: list[tuple[Section, str]] = [
            ("kafka_control", inputs(name)["control"]),
            ("kafka", f"{name}.audit"),
            ("kafka", f"{name}.access"),
        ]
        before = [record_count(estate.open(section), topic) for section, topic in written]
        request_join(server)
        for (section, topic), count in zip(written, before, strict=True):
            cluster = estate.open(section)
            until(lambda: record_count(cluster, topic) > count, f"it is written to {topic}")  # noqa: B023
        assert "lost" not in server.log.read_text()


def rights_of_a_server(estate: Estate, name: str) -> list[Right]:
    """What the page has for one cluster; each part belongs to one block, and groups to two."""
    found = granting.documented(granting.SERVE, name, inputs(name))
    if len(estate.brokers) == 1:
        return found
    places: dict[str, Section] = dict.fromkeys(inputs(name).values(), "kafka_data")
    places[inputs(name)["control"]] = "kafka_control"
    found = [replace(right, section=places.get(right.binding.name, "kafka")) for right in found]
    groups = [right for right in found if right.binding.restype == ResourceType.GROUP]
    return [*found, *(replace(right, section="kafka_data") for right in groups)]


def record_count(cluster: Kafka, topic: str) -> int:
    """Return the number of records in a topic; none if there is no topic."""
    described = cluster.describe([topic])
    if not described:
        return 0
    return sum(cluster.offsets(described.values(), OffsetSpec.latest())[topic].values())


# --- each right missing in turn


@dataclass(frozen=True)
class Missing:
    """A missing right, and the words that report it."""

    section: Section
    operation: str
    resource: str
    words: str
    swap: bool = False  # whether it shows only when a swap is requested

    @property
    def kind(self) -> ResourceType:
        kinds = {"group": ResourceType.GROUP, "id": ResourceType.TRANSACTIONAL_ID}
        return kinds.get(self.resource, ResourceType.TOPIC)

    @property
    def what(self) -> AclOperation:
        return AclOperation[self.operation]

    def __str__(self) -> str:
        return f"{self.operation}-{self.resource}".lower()

    def right(self, estate: Estate, name: str) -> Right:
        """The documented right that is missing."""
        wanted = (self.section, self.kind, resource_names(name)[self.resource], self.what)
        (found,) = [right for right in documented(estate, name) if key(right) == wanted]
        return found


_GROUP = "not authorized to use consumer group"
MISSING = (
    Missing("kafka", "READ", "in.users", 'not authorized to read topic "{in.users}"'),
    Missing("kafka", "READ", "in.accounts", 'not authorized to read topic "{in.accounts}"'),
    Missing("kafka", "READ", "in.control", 'not authorized to read topic "{in.control}"'),
    Missing("kafka", "WRITE", "in.control", "cannot write to control topic", swap=True),
    Missing("kafka", "CREATE", "in.control", 'not authorized to create topic "{in.control}"'),
    Missing("kafka", "CREATE", "own", "not authorized to create"),
    Missing("kafka", "DELETE", "own", "not authorized to delete", swap=True),
    Missing("kafka", "READ", "own", "not authorized to read"),
    Missing("kafka", "WRITE", "own", "uthorization"),
    Missing("kafka", "READ", "group", _GROUP),
    Missing("kafka", "WRITE", "id", "uthorization"),
)
_PLACES: dict[str, Section] = {
    "in.users": "kafka_data",
    "in.accounts": "kafka_data",
    "in.control": "kafka_control",
}
MISSING_OF_THREE = (
    *(replace(one, section=_PLACES.get(one.resource, "kafka")) for one in MISSING),
    Missing("kafka_data", "READ", "group", _GROUP + " {own}pins"),
    Missing("kafka_control", "READ", "group", _GROUP + " {own}control"),
    Missing("kafka_control", "WRITE", "replies", 'not authorized to write topic "{replies}"',
            swap=True),
    Missing("kafka_control", "CREATE", "replies", 'not authorized to create topic "{replies}"',
            swap=True),
)  # fmt: skip
Key = tuple[Section, object, str, object]  # block, kind of resource, its name, operation
# livejoin runs without these, with less knowledge
OPTIONAL: set[Key] = {("kafka", ResourceType.TOPIC, "own", AclOperation.DESCRIBE_CONFIGS)}


def key(right: Right) -> Key:
    binding = right.binding
    return right.section, binding.restype, binding.name, binding.operation


def resource_names(name: str) -> dict[str, str]:
    """Return the names of what the rights are for."""
    found = {f"in.{one}": topic for one, topic in inputs(name).items()}
    found |= {"own": f"{name}.", "group": f"{name}.", "id": f"{name}.leader"}
    return found | {"replies": f"{name}.replies"}


def test_d7_every_documented_right_has_its_case(estate: Estate) -> None:
    names = resource_names("d7")
    missing = MISSING_OF_THREE if len(estate.brokers) > 1 else MISSING
    cases: set[Key] = {(one.section, one.kind, names[one.resource], one.what) for one in missing}
    cases |= {(section, kind, names[name], what) for section, kind, name, what in OPTIONAL}
    assert cases == {key(right) for right in documented(estate, "d7")}


@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_d7_without(missing: Missing, one: Estate, tmp_path: Path) -> None:
    run_without(missing, one, tmp_path)


@pytest.mark.parametrize("missing", MISSING_OF_THREE, ids=lambda m: f"{m.section}-{m}")
def test_d7_over_three_clusters_without(missing: Missing, three: Estate, tmp_path: Path) -> None:
    run_without(missing, three, tmp_path)


def test_d7_without_what_is_optional(one: Estate, tmp_path: Path) -> None:
    name = "d7-optional"
    live, names = prepared_livejoin(one, tmp_path, name), resource_names(name)
    optional = {(section, kind, names[own], what) for section, kind, own, what in OPTIONAL}
    one.revoke(*(right for right in documented(one, name) if key(right) in optional))
    live.start()
    try:
        live.wait_live()
        request_join(live)
        until(lambda: live.request("api/v1/status")["joinType"] == "inner", "the other join")
    finally:
        assert live.stop() == 0


def run_without(missing: Missing, estate: Estate, folder: Path) -> None:
    """A start, and if needed a swap: the missing right is named, and granting it is enough."""
    name = f"d7-{len(estate.brokers)}-{missing.section.partition('_')[2]}-{missing}".replace(
        ".", "-"
    )
    live, names = prepared_livejoin(estate, folder, name), resource_names(name)
    right = missing.right(estate, name)
    estate.revoke(right)
    words = missing.words
    for resource, value in names.items():
        words = words.replace(f"{{{resource}}}", value)
    live.start()
    try:
        if missing.operation == "DELETE":  # it shows once there is something to delete
            live.wait_live()
        if missing.swap:
            until(lambda: "listening to" in log_and_status(live), "it listens")
            request_join(live)
        until(lambda: words in log_and_status(live), f"{words!r} is reported", 60)
        # livejoin continues by itself after the right is granted
        estate.grant(right)
        until(lambda: words not in status(live), "it is no longer reported", 60)
        if missing.resource == "replies":  # they have waited in the ledger
            cluster = estate.open("kafka_control")
            until(lambda: record_count(cluster, names["replies"]) > 0, "the reply arrives", 60)
    finally:
        print(log_and_status(live)[-1500:])
        assert live.stop() == 0, "it did not stop"


def request_join(livejoin: Running) -> None:
    """Request another join; the error in the response is appended to the log."""
    json_type = {"content-type": "application/json"}
    request = urllib.request.Request(
        f"{livejoin.url}api/v1/control", b'{"joinType": "inner"}', json_type
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        with livejoin.log.open("ab") as log:
            log.write(error.read())


def log_and_status(livejoin: Running) -> str:
    """The log and the status."""
    return livejoin.log.read_text() + status(livejoin)


def status(livejoin: Running) -> str:
    with contextlib.suppress(AssertionError):
        return json.dumps(livejoin.request("api/v1/status"), ensure_ascii=False).replace('\\"', '"')
    return ""
