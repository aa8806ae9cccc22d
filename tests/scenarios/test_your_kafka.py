"""`docs/your-kafka.md` followed from top to bottom, on three clusters with logins and ACLs.

livejoin's commands run as they stand there. What the page leaves to Kafka's own tools is taken from
the commands that livejoin prints, and requested by an administrator's client.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from livejoin.kafka.cluster import Kafka
from livejoin.runtime.broker import free_port
from rig import granting
from rig.authority import Authority
from rig.kafka_page import PAGE, PASSWORDS, PLAN, REMOVAL, command, write_settings
from rig.running import COLD, LIVEJOIN, START_S, until
from rig.secure import SecureBroker, secure

LISTENERS = {"kafka": "SCRAM", "kafka_data": "MUTUAL", "kafka_control": "PLAIN"}
EVENTS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' user_livejoin-events="{PASSWORDS["events-password"]}";'
)
ANY: Any = None  # typed as a text
EVERY_ACL = AclBindingFilter(
    *(ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
CLUSTER = {**granting.CHECKS_RIGHTS, "offsets.retention.check.interval.ms": "1000"}
LIMIT_S = 60


@dataclass
class Estate:
    """The clusters by block of the settings, and the folder in which the commands are typed."""

    folder: Path
    brokers: dict[str, SecureBroker]
    http_port: int = field(default_factory=free_port)

    @property
    def env(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LIVEJOIN_")}
        return inherited | {
            "PATH": f"{LIVEJOIN.parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder / "state"),
            "LIVEJOIN_URL": f"http://127.0.0.1:{self.http_port}/",
        }

    def adapt_settings(self, file: Path) -> None:
        """Have the page's settings name these clusters, which have one broker each."""
        values = yaml.safe_load(file.read_text())
        for section, broker in self.brokers.items():
            port = broker.ports[LISTENERS[section]]
            values[section] |= {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "ssl.ca.location": str(broker.folder / "ca.pem"),
            }
        values["own_topics"]["replication"] = 1
        values |= {"http": {"port": self.http_port}, "spark": {"conf": COLD}}
        file.write_text(yaml.safe_dump(values))

    def type(self, line: str, **more: str) -> str:
        """Run a command line of the page; returns what it prints."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.env | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def get(self, path: str, token: str) -> Any:
        """The JSON of a response of livejoin; an empty object while there is none."""
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.env["LIVEJOIN_URL"] + path, headers=headers)
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(request, timeout=LIMIT_S) as found,
        ):
            return json.load(found)
        return {}

    def administrator(self, server: str) -> Kafka:
        """Who may do everything on the cluster that has this address in the settings."""
        (found,) = [
            broker.open
            for section, broker in self.brokers.items()
            if server == f"127.0.0.1:{broker.ports[LISTENERS[section]]}"
        ]
        return found

    def create_topics(self, lines: list[str]) -> None:
        for line in lines:
            words = shlex.split(line)
            options = dict(itertools.pairwise(words))
            config = dict(word.split("=", 1) for word in words if "=" in word)
            topic = NewTopic(
                options["--topic"],
                int(options["--partitions"]),
                int(options["--replication-factor"]),
                config=config,
            )
            admin = self.administrator(options["--bootstrap-server"]).admin
            admin.create_topics([topic])[topic.topic].result(LIMIT_S)

    def grant(self, lines: list[str]) -> None:
        """Grant rights, and wait until the brokers know them."""
        count = 0
        for line in lines:
            server, bindings = granting.parse_command(line)
            granting.grant(self.administrator(server), bindings)
            count += len(bindings)
        until(lambda: len(self.acls()) == count, "the rights are known")

    def revoke(self, lines: list[str]) -> None:
        for line in lines:
            assert " --remove --force " in line
            server, bindings = granting.parse_command(line.replace("--remove --force", "--add"))
            for binding in bindings:
                granting.revoke(self.administrator(server), binding)

    def acls(self) -> list[Any]:
        """All rights of everybody, on all clusters."""
        admins = [broker.open.admin for broker in self.brokers.values()]
        return [acl for admin in admins for acl in admin.describe_acls(EVERY_ACL).result(LIMIT_S)]

    def topics(self) -> dict[str, set[str]]:
        """Topics by cluster, without those of the brokers themselves."""
        return {
            section: {topic for topic in broker.open.topics() if not topic.startswith("__")}
            for section, broker in self.brokers.items()
        }

    def groups(self) -> list[str]:
        admins = [broker.open.admin for broker in self.brokers.values()]
        found = [admin.list_consumer_groups(request_timeout=LIMIT_S).result() for admin in admins]
        return [group.group_id for one in found for group in one.valid]


@pytest.fixture
def estate(tmp_path: Path) -> Iterator[Estate]:
    """Three clusters that check rights, each with the kind of login that the page has for it."""
    authority = Authority()
    more = {
        "kafka": {},
        "kafka_data": {"ssl.principal.mapping.rules": "DEFAULT"},
        "kafka_control": {"listener.name.plain.plain.sasl.jaas.config": EVENTS},
    }
    with contextlib.ExitStack() as stack:
        brokers = {
            section: stack.enter_context(secure(tmp_path / section, authority, more=CLUSTER | own))
            for section, own in more.items()
        }
        folder = tmp_path / "typed"
        folder.mkdir()
        certificate = authority.sign("livejoin")
        found = Estate(folder, brokers)
        found.adapt_settings(write_settings(folder, certificate.pem, certificate.key_pem()))
        yield found


@contextlib.contextmanager
def started(estate: Estate) -> Iterator[Path]:
    """Run the page's `livejoin run` until the end of the block; yields its log."""
    log = estate.folder / "livejoin.log"
    words = shlex.split(command("run"))
    with log.open("wb") as file:
        process = subprocess.Popen(
            words, cwd=estate.folder, env=estate.env, stdout=file, stderr=file
        )
    try:
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, log.read_text()[-3000:]
    finally:
        process.kill()
        process.wait(LIMIT_S)


def first_token(log: Path) -> str:
    """The viewer's token, which the first start prints once."""
    found = until(
        lambda: re.search(r"token for the role viewer, shown only once: (\S+)", log.read_text()),
        "the tokens are printed",
        START_S,
    )
    return str(found[1])


def kafka_commands(printed: str, tool: str) -> list[str]:
    found = [line for line in printed.splitlines() if line.startswith(f"{tool} ")]
    assert found, printed
    return found


def test_the_page_can_be_followed_from_top_to_bottom(estate: Estate) -> None:
    sources = {"crm.users", "bank.accounts"}
    data = estate.brokers["kafka_data"].open
    producer = data.producer()
    for topic in sources:
        data.create_topic(topic)
        producer.produce(topic, b'{"userId": "a"}')
    assert producer.flush(LIMIT_S) == 0
    before = estate.topics()

    assert "kafka_control.bootstrap.servers" in estate.type(command("config"))
    plan = estate.type(PLAN)
    estate.create_topics(kafka_commands(plan, "kafka-topics"))
    estate.grant(kafka_commands(plan, "kafka-acls"))
    checked = json.loads(estate.type(f"{command('doctor')} --json"))
    assert [one for one in checked if one["severity"] not in ("ok", "skipped")] == []

    with started(estate) as log:
        token = first_token(log)

        def join() -> Any:
            return estate.get("api/v1/status", token).get("joinType")

        until(join, "live", START_S)
        assert re.search(r"state +live", estate.type(command("status"), LIVEJOIN_TOKEN=token))
        request = estate.brokers["kafka_control"].open.producer()
        request.produce("livejoin.requests", b'{"joinType": "inner"}')  # from another system
        assert request.flush(LIMIT_S) == 0
        until(lambda: join() == "inner", "the other join", START_S)
    assert estate.topics()["kafka_data"] == sources

    (pattern,) = re.findall(r"--delete --topic '([^']+)'", PAGE)
    for section in ("kafka", "kafka_control"):
        admin = estate.brokers[section].open
        own = [topic for topic in estate.topics()[section] if re.fullmatch(pattern, topic)]
        assert own
        admin.delete(own)
    estate.brokers["kafka_control"].open.delete(["livejoin.requests"])
    estate.revoke(estate.type(REMOVAL).splitlines())
    until(lambda: estate.topics() == before, f"no topic is left: {estate.topics()}")
    until(lambda: not estate.acls(), "no right is left")
    until(lambda: not estate.groups(), "no consumer group is left")
    assert (estate.folder / "state" / "livejoin" / "livejoin-crm").is_dir()
