"""`livejoin sources infer`: a block of the settings from records of a real topic."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.config import settings
from livejoin.kafka.cluster import Kafka

TOPIC = "infer.orders"


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    kafka.create_topic(TOPIC, partitions=3)
    kafka.create_topic("infer.empty")
    producer = kafka.producer()
    for number in range(60):
        order = {"customerId": f"c{number}", "total": 1.5, "address": {"city": "Paris"}}
        producer.produce(TOPIC, json.dumps(order), partition=number % 3)
    producer.produce(TOPIC, None, partition=0)
    producer.produce(TOPIC, "not JSON", partition=1)
    producer.flush(30)
    return TOPIC


@pytest.fixture
def settings_file(kafka: Kafka, tmp_path: Path) -> str:
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"name: infer\nkafka:\n  bootstrap.servers: {kafka.address}\n")
    return str(file)


def infer(settings_file: str, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main.cli, ["sources", "infer", "-c", settings_file, *arguments])
    assert done.exit_code == code, done.output
    return done.stdout


def test_the_proposal_can_be_pasted(topic: str, settings_file: str, tmp_path: Path) -> None:
    output = infer(settings_file, "--topic", topic)
    assert "# 61 records of infer.orders: 60 are JSON objects," in output
    assert "# 60 fit the fields below (98.4 %)" in output
    block = yaml.safe_load(output)
    assert block == {
        "orders": {
            "topic": topic,
            "key": "customerId",
            "fields": {
                "customerId": "string",
                "total": "double",
                "city": {"path": "$.address.city", "type": "string"},
            },
        }
    }
    file = tmp_path / "pasted.yaml"
    customers = {"key": "id", "fields": {"id": "string"}}
    file.write_text(yaml.safe_dump({"sources": {**block, "customers": customers}}, sort_keys=False))
    assert settings.load(file).join_spec.driver.name == "orders"


def test_as_json_for_programs(topic: str, settings_file: str) -> None:
    arguments = ("--topic", topic, "--name", "o", "--count", "30", "--output", "json")
    found = json.loads(infer(settings_file, *arguments))
    assert (found["name"], found["key"], found["samples"]) == ("o", "customerId", 29)
    assert [field["name"] for field in found["fields"]] == ["customerId", "total", "city"]


def test_a_topic_without_objects_exits_with_1(topic: str, settings_file: str) -> None:
    assert topic
    output = infer(settings_file, "--topic", "infer.empty", code=1)
    assert output.startswith("# 0 records of infer.empty")


def test_a_topic_that_does_not_exist_is_named(settings_file: str) -> None:
    done = CliRunner().invoke(
        main.cli, ["sources", "infer", "-c", settings_file, "--topic", "infer.nothing"]
    )
    assert 'topic "infer.nothing" does not exist' in str(done.exception)
