"""The doctor command: checks of the machine, the settings and Kafka."""

import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from livejoin.cli.options import Config, Output
from livejoin.cli.output import print_line
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError
from livejoin.runtime import processes

_REACH_S = 5


def doctor(config: Config = None, output: Output = "table") -> None:
    """Check this machine and the settings: Java, jars, Kafka, topics.

    One line per check: system, java, jars, settings, kafka, topics, leader (one of livejoin's own
    topics). Jars that have yet to be downloaded are not a failure. Exits with code 1 if a check
    fails.
    """
    checks = list(_checks(config))
    if output == "json":
        print(json.dumps([{"check": name, "ok": ok, "found": found} for name, ok, found in checks]))
    else:
        for name, ok, found in checks:
            print_line(f"{'ok ' if ok else 'BAD'}  {name:<10} {found}")
    if not all(ok for _, ok, _ in checks):
        raise typer.Exit(1)


def _checks(config: Path | None) -> Iterator[tuple[str, bool, str]]:
    """Yield each check's name, whether it passed, and its result."""
    from livejoin.config import settings  # noqa: PLC0415 - slow to import
    from livejoin.control.leadership import check_leader_topic  # noqa: PLC0415 - as above
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above
    from livejoin.runtime import jars  # noqa: PLC0415 - as above

    system = platform.system()
    supported = system in ("Linux", "Darwin")
    yield "system", supported, system if supported else f"{system}: run livejoin under WSL2"
    yield _check("java", processes.find_java)
    uncached = [
        jar.coordinate
        for jar in jars.read_lock_file()
        if jar.group in jars.RUNTIME_GROUPS and not jar.file.exists()
    ]
    yield (
        "jars",
        True,
        f"{len(uncached)} to download at the first start" if uncached else "all cached",
    )
    try:
        chosen = settings.load(config)
    except SettingsError as error:
        yield "settings", False, str(error)
        return
    yield "settings", True, f"{config or 'defaults and environment'}"
    kafka = Kafka(chosen.kafka)

    def reach() -> str:
        kafka.wait_until_reachable(_REACH_S)
        return kafka.address

    kafka_check = _check("kafka", reach)
    yield kafka_check
    if kafka_check[1]:
        topics = (chosen.topics.users, chosen.topics.accounts)
        missing = [name for name in topics if name not in kafka.describe(topics)]
        found = (
            f"missing: {', '.join(missing)}; create them, or name others in topics.*"
            if missing
            else " and ".join(topics)
        )
        yield "topics", not missing, found

        def check_leader() -> str:
            names = Names(chosen.name)
            check_leader_topic(kafka, names)
            return f"{names.leader} has one partition, or does not exist yet"

        yield _check("leader", check_leader)


def _check(name: str, action: Callable[[], str]) -> tuple[str, bool, str]:
    try:
        return name, True, action()
    except LivejoinError as error:
        return name, False, str(error)
