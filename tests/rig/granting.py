"""The rights of docs/security-kafka.md as ACLs: read from the page, granted and revoked.

The page's servers stand for the blocks of the settings, its principals for the test's user.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Section
from rig.secure import USER

PAGE = Path(__file__).parents[2] / "docs/security-kafka.md"
ONE, SEVERAL, SERVE = "One cluster", "Three clusters", "Further servers"
CHECKS_RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the test itself
}
_SECTIONS: dict[str, Section] = {
    "kafka-platform:9092": "kafka",
    "kafka-data:9093": "kafka_data",
    "kafka-events:9092": "kafka_control",
}
_KINDS = ("--topic", "--group", "--transactional-id")
_OWN = "livejoin."
NOBODY_ELSE: Mapping[Section, str] = {}


@dataclass(frozen=True)
class Right:
    """One operation on one resource, and the block on whose cluster it is needed."""

    section: Section
    binding: AclBinding


def documented(
    heading: str, name: str, inputs: Mapping[str, str], users: Mapping[Section, str] = NOBODY_ELSE
) -> list[Right]:
    """The rights below a heading, one operation each, for another name, inputs and users."""
    part = PAGE.read_text().split(f"### {heading}\n")[1].partition("\n##")[0]
    found = []
    for line in re.findall(r"(?m)^kafka-acls .*$", part):
        server, bindings = parse_command(line)
        section = _SECTIONS[server]
        for one in bindings:
            own = one.name.startswith(_OWN)
            resource = f"{name}.{one.name.removeprefix(_OWN)}" if own else inputs[one.name]
            principal = f"User:{users.get(section, USER)}"
            binding = AclBinding(
                *(one.restype, resource, one.resource_pattern_type, principal, one.host),
                *(one.operation, one.permission_type),
            )
            found.append(Right(section, binding))
    assert found, heading
    return found


def parse_command(line: str) -> tuple[str, list[AclBinding]]:
    """The server of a `kafka-acls` command that adds rights, and the rights, one operation each."""
    words = shlex.split(line.replace("--add ", ""))[1:]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    options = dict(pairs)
    kind = next(one for one in _KINDS if one in options)
    return options["--bootstrap-server"], [
        AclBinding(
            ResourceType[kind.strip("-").replace("-", "_").upper()],
            options[kind],
            ResourcePatternType[options.get("--resource-pattern-type", "literal").upper()],
            options["--allow-principal"],
            "*",
            _operation(operation),
            AclPermissionType.ALLOW,
        )
        for option, operation in pairs
        if option == "--operation"
    ]


def _operation(name: str) -> AclOperation:
    """The operation that `kafka-acls` calls `DescribeConfigs`, for example."""
    return AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()]


def grant(kafka: Kafka, bindings: Iterable[AclBinding]) -> None:
    """Grant rights on a cluster."""
    for done in kafka.admin.create_acls(list(bindings)).values():
        done.result(10)


def revoke(kafka: Kafka, one: AclBinding) -> None:
    """Take a right away that was granted."""
    same = AclBindingFilter(
        one.restype, one.name, one.resource_pattern_type, one.principal, one.host,
        one.operation, one.permission_type,
    )  # fmt: skip
    for done in kafka.admin.delete_acls([same]).values():
        assert len(done.result(10)) == 1, one
