"""`livejoin topics plan`: its commands create on a real broker what livejoin needs."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import NewTopic
from typer.testing import CliRunner

from livejoin.cli.main import cli
from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules
from livejoin.core.state import State
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics

LASTING = ("ledger", "logs", "replies", "leader", "tokens", "audit", "access")


def _plan(folder: Path, *options: str, **settings: Any) -> str:
    file = folder / "livejoin.yaml"
    file.write_text(yaml.safe_dump(settings))
    done = CliRunner().invoke(cli, ["topics", "plan", "-c", str(file), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def _options(command: str) -> dict[str, list[str]]:
    """The options of a command line, each with its values."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in shlex.split(command)[1:]:
        if word.startswith("--"):
            name = word
            found.setdefault(name, [])
        else:
            found[name].append(word)
    return found


@pytest.mark.usefixtures("no_settings")
def test_the_plan_is_a_table_with_commands(tmp_path: Path) -> None:
    own = {"replication": 3, "config": {"audit": {"segment.ms": 3600000}}, "create": False}
    lines = _plan(tmp_path, "--principal", "User:joiner", name="crm", own_topics=own).splitlines()
    assert lines[0].split() == ["topic", "partitions", "replication", "config", "purpose"]
    assert [line.split()[0] for line in lines[1:9]] == [
        *(f"crm.{kind}" for kind in LASTING),
        "control",
    ]
    assert lines[1].split()[1:4] == ["1", "3", "cleanup.policy=compact"]
    create = [line for line in lines if line.startswith("kafka-topics ")]
    assert create[0] == (
        "kafka-topics --bootstrap-server 127.0.0.1:9092 --create --topic crm.ledger"
        " --partitions 1 --replication-factor 3 --config cleanup.policy=compact"
    )
    (audit,) = [line for line in create if "crm.audit" in line]
    assert "--config segment.ms=3600000" in audit
    grants = [_options(line) for line in lines if line.startswith("kafka-acls ")]
    assert {tuple(one["--allow-principal"]) for one in grants} == {("User:joiner",)}
    rights = {(one.get("--topic") or ["-"])[0]: one["--operation"] for one in grants}
    assert rights["crm."] == ["Read", "Write", "DescribeConfigs"]
    assert rights["crm.changelog."] == rights["crm.feed."] == ["Create", "Delete"]
    assert rights["control"] == ["Read", "Write"]


@pytest.mark.usefixtures("no_settings")
def test_a_livejoin_that_creates_its_topics_gets_the_right_to(tmp_path: Path) -> None:
    planned = json.loads(_plan(tmp_path, "--output", "json", name="crm"))
    rights = {
        (one.get("--topic") or ["-"])[0]: one["--operation"]
        for one in map(_options, planned["grant"])
    }
    assert rights["crm."] == ["Read", "Write", "DescribeConfigs", "Create", "Delete"]
    assert "crm.changelog." not in rights
    assert planned["topics"][0]["replication"] is None
    assert "--replication-factor" not in planned["create"][0]


SEVERAL: dict[str, Any] = {
    "kafka": {"bootstrap.servers": "own:1"},
    "kafka_data": {"bootstrap.servers": "data:2"},
    "kafka_control": {"bootstrap.servers": "control:3"},
}


def _resources(command: str) -> tuple[str, str, str]:
    """The server of a grant, its principal, and the resource with its operations."""
    found = _options(command)
    (kind,) = found.keys() & {"--topic", "--group", "--transactional-id"}
    operations = " ".join(found["--operation"])
    prefixed = "*" if "--resource-pattern-type" in found else ""
    resource = f"{kind} {found[kind][0]}{prefixed}: {operations}"
    return found["--bootstrap-server"][0], found["--allow-principal"][0], resource


@pytest.mark.usefixtures("no_settings")
def test_each_cluster_gets_only_what_is_needed_on_it(tmp_path: Path) -> None:
    principals = ("--principal", "User:a", "--principal-control", "User:c")
    planned = json.loads(_plan(tmp_path, *principals, "--output", "json", name="crm", **SEVERAL))
    created = {(row["section"], row["kind"]) for row in planned["topics"]}
    assert created == {
        *(("kafka", kind) for kind in LASTING if kind != "replies"),
        ("kafka_control", "replies"),
        ("kafka_control", "control"),
    }
    servers = {"kafka": "own:1", "kafka_control": "control:3"}
    for row, command in zip(planned["topics"], planned["create"], strict=True):
        found = _options(command)
        assert (found["--topic"], found["--bootstrap-server"]) == (
            [row["topic"]],
            [servers[row["section"]]],
        )
    assert [_resources(command) for command in planned["grant"]] == [
        ("own:1", "User:a", "--topic crm.*: Read Write DescribeConfigs Create Delete"),
        ("own:1", "User:a", "--group crm.*: Read"),
        ("own:1", "User:a", "--transactional-id crm.leader: Write"),
        ("data:2", "User:a", "--topic users: Read"),
        ("data:2", "User:a", "--topic accounts: Read"),
        ("data:2", "User:a", "--group crm.*: Read"),
        ("control:3", "User:c", "--topic control: Read Write Create"),
        ("control:3", "User:c", "--topic crm.replies: Write Create"),
        ("control:3", "User:c", "--group crm.*: Read"),
    ]


@pytest.mark.usefixtures("no_settings")
def test_an_administrator_creates_the_topics_of_each_cluster(tmp_path: Path) -> None:
    own = {"create": False}
    planned = json.loads(_plan(tmp_path, "--output", "json", own_topics=own, **SEVERAL))
    found = [_resources(command) for command in planned["grant"]]
    assert [one for one in found if "Create" in one[2]] == [
        ("own:1", "User:livejoin", "--topic livejoin.changelog.*: Create Delete"),
        ("own:1", "User:livejoin", "--topic livejoin.feed.*: Create Delete"),
    ]


@pytest.mark.usefixtures("no_settings")
def test_each_cluster_has_a_part_of_its_own(tmp_path: Path) -> None:
    lines = _plan(tmp_path, **SEVERAL).splitlines()
    parts = [at for at, line in enumerate(lines) if line.startswith("## ")]
    assert [lines[at] for at in parts] == [
        "## kafka: cluster of livejoin's own topics, own:1",
        "## kafka_data: cluster of the sources, data:2",
        "## kafka_control: cluster of the control topic, control:3",
    ]
    for first, last, server in zip(
        parts, [*parts[1:], len(lines)], ("own:1", "data:2", "control:3"), strict=True
    ):
        commands = [line for line in lines[first:last] if line.startswith("kafka-")]
        assert commands
        assert {_options(line)["--bootstrap-server"][0] for line in commands} == {server}
    assert not any(line.startswith("kafka-topics") for line in lines[parts[1] : parts[2]])


@pytest.mark.usefixtures("no_settings")
def test_a_block_for_the_control_topic_leaves_the_sources_on_the_first_cluster(
    tmp_path: Path,
) -> None:
    blocks = {section: SEVERAL[section] for section in ("kafka", "kafka_control")}
    planned = json.loads(_plan(tmp_path, "--output", "json", **blocks))
    own = [one[2] for one in map(_resources, planned["grant"]) if one[0] == "own:1"]
    assert own[:2] == ["--topic users: Read", "--topic accounts: Read"]
    assert not any(one.startswith("--topic control") for one in own)


@pytest.mark.usefixtures("no_settings")
def test_a_further_server_gets_fewer_rights_and_no_topics(tmp_path: Path) -> None:
    options = ("--serve", "--principal", "User:serve")
    planned = json.loads(_plan(tmp_path, *options, "--output", "json", **SEVERAL))
    assert planned["topics"] == planned["create"] == []
    assert [_resources(command) for command in planned["grant"]] == [
        ("own:1", "User:serve", "--topic livejoin.*: Read"),
        ("own:1", "User:serve", "--topic livejoin.audit: Write"),
        ("own:1", "User:serve", "--topic livejoin.access: Write"),
        ("own:1", "User:serve", "--group livejoin.*: Read"),
        ("data:2", "User:serve", "--topic users: Read"),
        ("data:2", "User:serve", "--topic accounts: Read"),
        ("data:2", "User:serve", "--group livejoin.*: Read"),
        ("control:3", "User:serve", "--topic control: Write"),
    ]
    lines = _plan(tmp_path, *options).splitlines()
    assert lines[0] == "# Grant livejoin serve its rights:"
    assert all(line.startswith("kafka-acls ") for line in lines[1:])


@pytest.mark.usefixtures("no_settings")
def test_a_principal_for_a_cluster_that_there_is_not_is_an_error() -> None:
    done = CliRunner().invoke(cli, ["topics", "plan", "--principal-data", "User:x"])
    assert done.exit_code == 2
    assert "--principal-data is for the cluster of kafka_data" in done.output


@pytest.mark.usefixtures("no_settings")
def test_warnings_about_the_settings_go_to_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    block = {"bootstrap.servers": "a:1"}
    file.write_text(yaml.safe_dump({"kafka": block, "kafka_data": block | {"client.id": "b"}}))
    done = CliRunner().invoke(cli, ["topics", "plan", "-c", str(file), "--output", "json"])
    assert json.loads(done.stdout)["grant"]
    assert done.stderr.startswith("livejoin: warning: kafka and kafka_data name the same servers")


@pytest.mark.usefixtures("no_settings")
def test_what_the_plan_creates_is_what_livejoin_needs(tmp_path: Path, kafka: Kafka) -> None:
    settings = {"name": "planned", "topics": {"control": "planned.control"}}
    planned = json.loads(_plan(tmp_path, "--output", "json", **settings))
    for command in map(_options, planned["create"]):
        config = dict(one.split("=", 1) for one in command.get("--config", []))
        topic = NewTopic(command["--topic"][0], int(command["--partitions"][0]), config=config)
        (done,) = kafka.admin.create_topics([topic]).values()
        done.result(15)
    topics = [row["topic"] for row in planned["topics"]]
    ids = {name: topic.id for name, topic in kafka.describe(topics).items()}
    assert len(ids) == len(LASTING) + 1
    strict = Kafka(kafka.properties, OwnTopicRules(create=False))
    assert Ledger(strict, Names("planned")).take_over() == State()
    access_topics.create_topics(strict, Names("planned"))
    assert {name: topic.id for name, topic in kafka.describe(topics).items()} == ids
    for row in planned["topics"]:
        for name, value in row["config"].items():
            assert kafka.topic_config(row["topic"], name) == value
