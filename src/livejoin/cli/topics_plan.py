"""`livejoin topics plan`: what an administrator creates and grants, as a table and as commands.

It needs the settings only, neither a running livejoin nor Kafka.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livejoin.cli.options import Config, Output
from livejoin.cli.output import LONG_CELL_CHARS, format_table, print_line
from livejoin.core import own_topics
from livejoin.core.names import Names

if TYPE_CHECKING:
    from livejoin.config.settings import Settings

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
_COLUMNS = ("topic", "partitions", "replication", "config", "purpose")


def plan(
    config: Config = None,
    principal: Annotated[
        str, typer.Option(help="Kafka principal of livejoin, for the ACLs.")
    ] = "User:livejoin",
    output: Output = "table",
) -> None:
    """Print livejoin's lasting topics, and the commands to create them.

    For clusters on which an administrator creates topics: a table, then `kafka-topics` and
    `kafka-acls` commands, which also take `--command-config` for a login. With
    `own_topics.create: false`, livejoin creates none of these topics itself; those of a generation
    (`<name>.changelog.<n>`, `<name>.feed.<n>`) come and go, so it always creates and deletes them.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above

    chosen = settings.load(config)
    rows = list(_rows(chosen))
    servers = Kafka(chosen.kafka).address
    commands = [_create_command(row, servers) for row in rows]
    grants = list(_grants(chosen, principal, servers))
    if output == "json":
        print(json.dumps({"topics": rows, "create": commands, "grant": grants}))
        return
    shown = [{**row, "config": _config_text(row["config"])} for row in rows]
    print("\n".join(format_table(shown, _COLUMNS, LONG_CELL_CHARS)))
    for title, lines in (("Create them:", commands), ("Grant livejoin its rights:", grants)):
        print(f"\n# {title}")
        for line in lines:
            print_line(line)


def _rows(chosen: "Settings") -> Iterator[dict[str, Any]]:
    rules = chosen.own_topics.rules
    for kind, topic in own_topics.lasting_topics(Names(chosen.name), chosen.topics.control).items():
        yield {
            "topic": topic,
            "kind": kind,
            "partitions": 1,
            "replication": None if rules.replication == -1 else rules.replication,
            "config": rules.config_of(kind),
            "purpose": _PURPOSES[kind],
        }


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


def _grants(chosen: "Settings", principal: str, servers: str) -> Iterator[str]:
    """The least rights; with own_topics.create false, livejoin creates no lasting topic."""
    names, topics = Names(chosen.name), chosen.topics
    creates = chosen.own_topics.create
    create, delete = (["Create"], ["Delete"]) if creates else ([], [])

    def allow(*resource: str, operations: Sequence[str]) -> str:
        to = ["kafka-acls", "--bootstrap-server", servers, "--add", "--allow-principal", principal]
        allowed = [part for one in operations for part in ("--operation", one)]
        return shlex.join([*to, *resource, *allowed])

    prefixed = ("--resource-pattern-type", "prefixed")
    for source in (topics.users, topics.accounts):
        yield allow("--topic", source, operations=["Read"])
    yield allow("--topic", topics.control, operations=["Read", "Write", *create])
    everything = names.group("")  # ends with a dot, as other names may begin with this one
    own = ["Read", "Write", "DescribeConfigs", *create, *delete]
    yield allow("--topic", everything, *prefixed, operations=own)
    if not creates:
        for one in (names.changelog(0), names.bootstrap(0)):
            kind = one.removesuffix("0")
            yield allow("--topic", kind, *prefixed, operations=["Create", "Delete"])
    yield allow("--group", everything, *prefixed, operations=["Read"])
    yield allow("--transactional-id", names.leader, operations=["Write"])
