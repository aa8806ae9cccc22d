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
