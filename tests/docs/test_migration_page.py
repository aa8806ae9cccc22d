"""`docs/migrating-a-script.md`: its script runs, its settings hold, no constant is missed."""

import ast
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from livejoin.cli.main import cli
from livejoin.config import settings
from livejoin.core.state import LogEvent
from livejoin.errors import SettingsError
from livejoin.kafka import properties
from livejoin.kafka.clusters import Clusters

PAGE = (Path(__file__).parents[2] / "docs" / "migrating-a-script.md").read_text()
NONE = "none"

pytestmark = pytest.mark.usefixtures("no_settings")


def _block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def _table(heading: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip("` |") for cell in row] for row in rows[2:]]


@pytest.fixture
def script() -> dict[str, Any]:
    """The constants at the script's head."""
    found: dict[str, Any] = {}
    exec(_block("python"), found)
    return found


@pytest.fixture
def effective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What `livejoin config` prints for the page's settings."""
    monkeypatch.setenv("CLIENT_SECRET", "q7VxExample")
    file = tmp_path / "livejoin.yaml"
    file.write_text(_block("yaml"))
    done = CliRunner().invoke(cli, ["config", "-c", str(file), "--output", "json"])
    assert done.exit_code == 0, done.output
    return {row["setting"]: str(row["value"]) for row in json.loads(done.stdout)}


def test_every_constant_of_the_script_is_in_the_table() -> None:
    assigned = [node for node in ast.parse(_block("python")).body if isinstance(node, ast.Assign)]
    constants = [target.id for node in assigned for target in node.targets if hasattr(target, "id")]
    assert len(constants) > 15
    assert sorted(row[0] for row in _table("Constant by constant")) == sorted(constants)


def test_each_constant_has_the_effective_setting_that_the_table_states(
    effective: dict[str, str],
) -> None:
    stated = [(row[1], row[3] if len(row) > 3 else "") for row in _table("Constant by constant")]
    checked = [(name, effective[name]) for name, value in stated if value]
    assert len(checked) > 10
    assert checked == [(name, value) for name, value in stated if value]
    sections = {name.partition(".")[0] for name in effective}
    assert {name.partition(".")[0] for name, _ in stated} <= sections | {NONE}


def test_the_settings_say_what_the_script_says(
    effective: dict[str, str], script: dict[str, Any]
) -> None:
    names = {"topics.users": "USERS_TOPIC", "topics.accounts": "ACCOUNTS_TOPIC"}
    names |= {"topics.control": "CONTROL_TOPIC", "join": "JOIN_TYPE", "http.port": "PORT"}
    names |= {"kafka.auto.offset.reset": "AUTO_OFFSET_RESET"}
    assert {name: effective[name] for name in names} == {
        name: str(script[constant]) for name, constant in names.items()
    }
    assert float(effective["standby_s"]) == script["RETIRE_AFTER_SECONDS"]


def test_both_blocks_of_the_script_can_be_pasted_and_are_one_login(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_SECRET", "q7VxExample")
    file = tmp_path / "livejoin.yaml"
    file.write_text(_block("yaml"))
    pasted = [settings.load(kafka=script[f"{one}_PROPERTIES"]) for one in ("DATA", "CONTROL")]
    logins = [
        properties.client_properties(properties.reveal(chosen.kafka))
        for chosen in (*pasted, settings.load(file))
    ]
    assert logins[0].librdkafka == logins[1].librdkafka == logins[2].librdkafka
    assert logins[0].java == logins[1].java == logins[2].java
    extensions = ",".join(f"{k}={v}" for k, v in sorted(script["OAUTH_EXTENSIONS"].items()))
    assert logins[0].librdkafka["sasl.oauthbearer.extensions"] == extensions
    for chosen in pasted:
        assert "kafka.group.id is ignored: livejoin sets it itself" in chosen.warnings
    assert settings.load(file).warnings == ()


def test_each_block_of_the_script_can_be_pasted_into_its_own_section(
    script: dict[str, Any],
) -> None:
    given, own = {}, {"bootstrap.servers": "kafka-3.example:9092"}
    for section, one in (("kafka_data", "DATA"), ("kafka_control", "CONTROL")):
        given[section] = script[f"{one}_PROPERTIES"]
    clusters = Clusters.connect(settings.load(kafka=own, **given).kafka_blocks)
    script_servers = script["DATA_PROPERTIES"]["bootstrap.servers"]
    assert [kafka.address for kafka in clusters.each] == [
        own["bootstrap.servers"], script_servers, script_servers,
    ]  # fmt: skip
    for section in given:
        assert f"`{section}`" in PAGE


@pytest.mark.parametrize(
    ("written", "standby_s"), [("0", 0.0), ("600", 600.0), ("forever", "forever")]
)
def test_the_values_for_keeping_old_builds_are_valid(
    written: str, standby_s: float | str, tmp_path: Path
) -> None:
    assert written in " ".join(row[2] for row in _table("Constant by constant")) or written == "600"
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"standby_s: {written}")
    assert settings.load(file).standby_s == standby_s


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_script_that_seeks_gets_a_start(start: str) -> None:
    assert settings.load(start=start).start_positions == {"users": start, "accounts": start}


@pytest.mark.parametrize("name", ["deephaven.key.column.name", "oauth_cb"])
def test_what_cannot_be_pasted_is_refused_by_name(script: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match="is not a Kafka client property"):
        settings.load(kafka={**script["DATA_PROPERTIES"], name: "x"})


def test_a_script_that_reads_one_topic_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"topics\.users and topics\.accounts must differ"):
        settings.load(topics={"users": "crm", "accounts": "crm"})


def test_the_events_of_the_log_lines_exist() -> None:
    events = {event for row in _table("Log lines") for event in row[1].split("`, `")}
    assert len(events) > 10
    assert events - {NONE} <= set(get_args(LogEvent))
