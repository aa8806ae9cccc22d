"""`docs/your-kafka.md`: its settings and commands run; its topics, groups and numbers are right."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from livejoin.cli.main import cli
from livejoin.config import settings
from livejoin.core import own_topics
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules
from livejoin.runtime import jars
from rig.authority import Authority
from rig.kafka_page import (
    BLOCKS,
    COMMANDS,
    PAGE,
    PASSWORDS,
    PLAN,
    PLAN_OF_SERVER,
    REMOVAL,
    command,
    write_settings,
)
from rig.running import LIVEJOIN

ROOT = Path(__file__).parents[2]
NAMES = Names("<name>")
GENERATIONS = 3  # live, standby, building

pytestmark = pytest.mark.usefixtures("no_settings")


def _table(head: str) -> list[list[str]]:
    """The rows of the table whose first column has this head."""
    rows = PAGE.split(f"\n| {head} |")[1].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """All settings of the page in one file, and the files that they name."""
    own = Authority().sign("livejoin")
    return write_settings(tmp_path, own.pem, own.key_pem())


def _run(line: str, file: Path, *more: str) -> str:
    words = shlex.split(line.partition(" | ")[0])[1:]
    words[words.index("livejoin.yaml")] = str(file)
    done = CliRunner().invoke(cli, [*words, *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_settings_are_valid_and_have_a_login_for_each_block(file: Path) -> None:
    assert len(BLOCKS) == 2
    chosen = settings.load(file)
    assert chosen.warnings == ()
    assert set(chosen.kafka_blocks) == {"kafka", "kafka_data", "kafka_control"}
    assert (chosen.own_topics.create, chosen.own_topics.rules.replication) == (False, 3)
    assert yaml.safe_load(BLOCKS[0])["name"] == chosen.name


def test_every_command_is_valid() -> None:
    assert len(COMMANDS) >= 7
    for line in COMMANDS:
        words = shlex.split(line.partition(" | ")[0])[1:]
        found: Any = typer.main.get_command(cli)
        while hasattr(found, "commands") and words and words[0] in found.commands:
            found = found.commands[words.pop(0)]
        found.make_context(found.name, words)  # raises for an unknown option


def test_config_shows_every_block_and_no_secret(file: Path) -> None:
    shown = _run(command("config"), file)
    for section in ("kafka", "kafka_data", "kafka_control"):
        assert f"{section}.bootstrap.servers" in shown
    assert [password for password in PASSWORDS.values() if password in shown] == []


def test_the_plan_of_the_page_grants_each_principal_its_cluster(file: Path) -> None:
    run, serve = (
        json.loads(_run(line, file, "--output", "json")) for line in (PLAN, PLAN_OF_SERVER)
    )
    granted = {
        tuple(re.findall(r"--bootstrap-server (\S+) --add --allow-principal (\S+)", line)[0])
        for line in run["grant"]
    }
    assert granted == {
        ("kafka-platform.example:9094", "User:livejoin"),
        ("kafka-data.example:9093", "User:CN=livejoin"),
        ("kafka-events.example:9094", "User:livejoin-events"),
    }
    assert run["create"]
    assert not serve["create"]


def test_the_topics_are_those_that_livejoin_creates() -> None:
    rows = _table("topic")
    documented = {row[0].split("`")[1]: row[2] for row in rows}
    lasting = own_topics.lasting_topics(NAMES, "control")
    expected: dict[str, own_topics.Kind] = {topic: kind for kind, topic in lasting.items()}
    expected |= {
        NAMES.changelog(0).replace("0", "<n>"): "changelog",
        NAMES.bootstrap(0).replace("0", "<n>"): "feed",
    }
    assert set(expected.values()) == set(get_args(own_topics.Kind))
    assert list(documented) == list(expected)
    for topic, kind in expected.items():
        config = OwnTopicRules().config_of(kind)
        assert ("compact" in config.get("cleanup.policy", "")) == ("compacted" in documented[topic])
        kept = int(config.get("retention.bytes", "0"))
        assert (f"{kept >> 20} MiB" in documented[topic]) == (kept > 0)
    hours = int(OwnTopicRules().config_of("leader")["retention.ms"]) / 3600000
    assert documented[NAMES.leader].startswith(f"{hours:g} hour")
    days = int(OwnTopicRules().config_of("access")["retention.ms"]) / 86400000
    assert documented[NAMES.access].endswith(f"{days:g} days")


def test_the_number_of_partitions_is_right() -> None:
    most = len(own_topics.lasting_topics(NAMES, "control"))
    assert "The first eight are permanent." in PAGE
    assert most == 8
    most += GENERATIONS * len(own_topics.PER_GENERATION)
    assert f"at most {most} partitions" in " ".join(PAGE.split())


def test_the_groups_are_those_of_the_code() -> None:
    documented = {row[0].strip("`") for row in _table("group")}
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    used = set(re.findall(r"names\.group\(\s*[\"']([\w-]+)[\"']", source))
    assert len(used) > 5
    assert documented == {NAMES.group(purpose) for purpose in used}


def test_the_version_is_that_of_the_embedded_broker() -> None:
    (version,) = {
        jar.coordinate.rpartition(":")[2]
        for jar in jars.read_lock_file()
        if jar.group == "broker" and ":kafka-server:" in jar.coordinate
    }
    assert f"run against Kafka {version.rpartition('.')[0]}, " in " ".join(PAGE.split())


def test_removal_takes_livejoins_topics_and_no_others(file: Path) -> None:
    (pattern,) = re.findall(r"--delete --topic '([^']+)'", PAGE)
    chosen = settings.load(file)
    names = Names(chosen.name)
    own = set(own_topics.lasting_topics(names, chosen.topics.control).values())
    own |= {names.changelog(1), names.bootstrap(12)}
    inputs = {chosen.topics.control, chosen.topics.users, chosen.topics.accounts}
    assert {topic for topic in own | inputs if re.fullmatch(pattern, topic)} == own - inputs
    assert not re.fullmatch(pattern, f"{names.prefix}2.orders")


def test_the_removal_of_rights_mirrors_their_grant(file: Path) -> None:
    shell = REMOVAL.replace("livejoin topics", f"{LIVEJOIN} topics", 1)
    shell = shell.replace("livejoin.yaml", str(file))
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    granted = json.loads(_run(PLAN, file, "--output", "json"))["grant"]
    assert done.stdout.splitlines() == [
        one.replace(" --add ", " --remove --force ") for one in granted
    ]
