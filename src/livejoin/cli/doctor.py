"""The doctor command: checks of the machine, the settings and Kafka."""

import json
import platform
from pathlib import Path
from typing import Any

import typer

from livejoin.cli.options import Config, Output
from livejoin.cli.text import print_line
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError
from livejoin.runtime import processes

_REACH_S = 5


def doctor(config: Config = None, output: Output = "table") -> None:
    """Check this machine and the settings: Java, jars, Kafka, topics.

    One line each: system, java, jars, settings, kafka, topics, leader (a topic of livejoin's own).
    Jars that are still to be downloaded are no failure. Ends with code 1 if a check did not pass.
    """
    checks = list(_checks(config))
    if output == "json":
        print(json.dumps([{"check": name, "ok": ok, "found": found} for name, ok, found in checks]))
    else:
        for name, ok, found in checks:
            print_line(f"{'ok ' if ok else 'BAD'}  {name:<10} {found}")
    if not all(ok for _, ok, _ in checks):
        raise typer.Exit(1)


def _checks(config: Path | None) -> Any:
    """Yield each check's name, whether it passed, and what was found."""
    from livejoin.config import settings  # noqa: PLC0415 - slow to import
    from livejoin.control.leadership import check_leader_topic  # noqa: PLC0415 - as above
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above
    from livejoin.runtime import jars  # noqa: PLC0415 - as above

    system = platform.system()
    known = system in ("Linux", "Darwin")
    yield "system", known, system if known else f"{system}: run livejoin under WSL2"
    yield _check("java", processes.find_java)
    missing = [
        jar.coordinate
        for jar in jars.read_lock_file()
        if jar.group in jars.RUNTIME_GROUPS and not jar.file.exists()
    ]
    yield (
        "jars",
        True,
        f"{len(missing)} to be downloaded at the first start" if missing else "all in the cache",
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

    reached = _check("kafka", reach)
    yield reached
    if reached[1]:
        topics = (chosen.topics.users, chosen.topics.accounts)
        absent = [name for name in topics if name not in kafka.describe(topics)]
        found = (
            f"missing: {', '.join(absent)}; create them, or name others in topics.*"
            if absent
            else " and ".join(topics)
        )
        yield "topics", not absent, found

        def one_leader() -> str:
            names = Names(chosen.name)
            check_leader_topic(kafka, names)
            return f"one partition, or none yet: {names.leader}"

        yield _check("leader", one_leader)


def _check(name: str, work: Any) -> tuple[str, bool, str]:
    try:
        return name, True, str(work())
    except LivejoinError as error:
        return name, False, str(error)
