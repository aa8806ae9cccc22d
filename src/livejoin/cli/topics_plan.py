"""`livejoin topics plan`: what an administrator creates and grants, as a table and as commands.

It needs the settings only, neither a running livejoin nor Kafka.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livejoin.cli.options import Config, Output
from livejoin.cli.output import LONG_CELL_CHARS, format_table, print_line, print_warnings
from livejoin.core import own_topics, rights
from livejoin.core.names import Names

if TYPE_CHECKING:
    from livejoin.config.settings import Settings
    from livejoin.kafka.cluster import Kafka
    from livejoin.kafka.clusters import Clusters

_PURPOSES: dict[own_topics.Kind, str] = {
    "ledger": "state of the control plane",
    "logs": "log lines and control messages, as rows",
    "replies": "outcomes of control messages",
    "leader": "election, heartbeats",
    "tokens": "hashes of access tokens",
    "audit": "who did or tried what",
    "access": "ended sessions, keys of signers",
    "control": "control messages",
}
_IN_CONTROL: tuple[own_topics.Kind, ...] = ("control", "replies")  # the cluster of both
_COLUMNS = ("topic", "partitions", "replication", "config", "purpose")
_ROLES: tuple[rights.Role, ...] = ("own", "data", "control")


@dataclass(frozen=True)
class _Part:
    """The plan for one cluster."""

    section: str
    role: str
    servers: str
    topics: list[dict[str, Any]]
    create: list[str]
    grant: list[str]


def plan(  # noqa: PLR0913 - one principal per cluster
    config: Config = None,
    *,
    principal: Annotated[
        str, typer.Option(help="Kafka principal of livejoin, for the ACLs.")
    ] = "User:livejoin",
    principal_data: Annotated[
        str | None, typer.Option(help="The one on the cluster of kafka_data, if it is another.")
    ] = None,
    principal_control: Annotated[
        str | None, typer.Option(help="The one on the cluster of kafka_control, if it is another.")
    ] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="The rights of `livejoin serve`, which creates no topics."),
    ] = False,
    output: Output = "table",
) -> None:
    """Print livejoin's lasting topics, and the commands to create them.

    For clusters on which an administrator creates topics: a table, then `kafka-topics` and
    `kafka-acls` commands, which also take `--command-config` for a login. With
    `own_topics.create: false`, livejoin creates none of these topics itself; those of a generation
    (`<name>.changelog.<n>`, `<name>.feed.<n>`) come and go, so it always creates and deletes them.

    With `kafka_data` or `kafka_control`, each cluster has a part of its own, with only what is
    needed there.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import
    from livejoin.kafka.clusters import Clusters  # noqa: PLC0415 - as above

    chosen = settings.load(config)
    print_warnings(chosen.warnings)
    clusters = Clusters.connect(chosen.kafka_blocks)
    principals = {"kafka_data": principal_data, "kafka_control": principal_control}
    _check_principals(clusters, principals)
    parts = [
        _part(chosen, clusters, one, principals.get(one.section) or principal, serve=serve)
        for one in clusters.each
    ]
    if output == "json":
        found = {
            "topics": [{**row, "section": part.section} for part in parts for row in part.topics],
            "create": [command for part in parts for command in part.create],
            "grant": [command for part in parts for command in part.grant],
        }
        print(json.dumps(found))
        return
    blocks: list[list[str]] = []
    for part in parts:
        if len(parts) > 1:
            blocks.append([f"## {part.section}: {part.role}, {part.servers}"])
        blocks += _blocks(part, "livejoin serve" if serve else "livejoin")
    for number, lines in enumerate(blocks):
        for line in (*([""] if number else []), *lines):
            print_line(line)


def _check_principals(clusters: "Clusters", principals: dict[str, str | None]) -> None:
    sections = [cluster.section for cluster in clusters.each]
    for section, principal in principals.items():
        if principal and section not in sections:
            option = f"--principal-{section.removeprefix('kafka_')}"
            raise typer.BadParameter(
                f"{option} is for the cluster of {section}, and the settings have no such block"
            )


def _part(
    chosen: "Settings", clusters: "Clusters", cluster: "Kafka", principal: str, *, serve: bool
) -> _Part:
    names, topics = Names(chosen.name), chosen.topics
    found = {"own": clusters.own, "data": clusters.data, "control": clusters.control}
    roles = [role for role in _ROLES if found[role] is cluster]
    inputs = rights.Inputs(tuple(chosen.initial_choice.topics.values()), topics.control)
    rows = [] if serve else list(_rows(chosen, roles))
    grants = (
        rights.serve_grants(names, inputs, roles)
        if serve
        else rights.run_grants(names, inputs, roles, creates=chosen.own_topics.create)
    )
    return _Part(
        cluster.section,
        cluster.role,
        cluster.address,
        rows,
        [_create_command(row, cluster.address) for row in rows],
        [_grant_command(grant, principal, cluster.address) for grant in grants],
    )


def _rows(chosen: "Settings", roles: Sequence[rights.Role]) -> Iterator[dict[str, Any]]:
    rules = chosen.own_topics.rules
    for kind, topic in own_topics.lasting_topics(Names(chosen.name), chosen.topics.control).items():
        if ("control" if kind in _IN_CONTROL else "own") in roles:
            yield {
                "topic": topic,
                "kind": kind,
                "partitions": 1,
                "replication": None if rules.replication == -1 else rules.replication,
                "config": rules.config_of(kind),
                "purpose": _PURPOSES[kind],
            }


def _blocks(part: _Part, who: str) -> Iterator[list[str]]:
    """The texts of a part, each with its lines."""
    if part.topics:
        shown = [{**row, "config": _config_text(row["config"])} for row in part.topics]
        yield format_table(shown, _COLUMNS, LONG_CELL_CHARS)
        yield ["# Create them:", *part.create]
    yield [f"# Grant {who} its rights:", *part.grant]


def _config_text(config: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in config.items())


def _create_command(row: dict[str, Any], servers: str) -> str:
    command = ["kafka-topics", "--bootstrap-server", servers, "--create", "--topic", row["topic"]]
    command += ["--partitions", str(row["partitions"])]
    if row["replication"] is not None:
        command += ["--replication-factor", str(row["replication"])]
    for name, value in row["config"].items():
        command += ["--config", f"{name}={value}"]
    return shlex.join(command)


def _grant_command(grant: rights.Grant, principal: str, servers: str) -> str:
    command = ["kafka-acls", "--bootstrap-server", servers, "--add", "--allow-principal", principal]
    command += [f"--{grant.resource}", grant.name]
    command += ["--resource-pattern-type", "prefixed"] if grant.is_prefix else []
    command += [part for one in grant.operations for part in ("--operation", one)]
    return shlex.join(command)
