"""The commands that check an installation: config (the effective settings) and doctor.

They need no running livejoin.
"""

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from livejoin import redaction
from livejoin.cli.options import Config, Output
from livejoin.cli.output import LONG_CELL_CHARS, format_table, print_line
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError
from livejoin.runtime import processes

_REACH_S = 5
# their keys belong to Kafka and Spark
_PROPERTY_SECTIONS = ("kafka", "kafka_data", "kafka_control", "own_topics.config", "spark.conf")


def config(config: Config = None, output: Output = "table") -> None:
    """Print the effective settings and where each comes from.

    Each comes from the file, the environment or a default. Values that may be secret are hidden,
    and references (`${env:NAME}`, `${file:PATH}`) are printed unresolved, so the output can be
    shared.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import

    rows = _setting_rows(settings.load(config).model_dump(), settings.values_by_origin(config))
    if output == "json":
        print(json.dumps(rows))
        return
    for line in format_table(rows, ["setting", "value", "from"], LONG_CELL_CHARS):
        print(line)


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


def _setting_rows(
    effective: Mapping[str, Any], origins: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return one row per setting. `origins` holds the given values, by precedence."""
    given = {origin: dict(_flatten(values)) for origin, values in origins.items()}
    rows = []
    for name, value in _flatten(effective):
        origin = next((key for key, values in given.items() if _sets(values, name)), "default")
        unresolved = given.get(origin, {}).get(name)
        rows.append({"setting": name, "value": _redact(name, value, unresolved), "from": origin})
    return rows


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by dotted name."""
    for name, value in values.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and (value or full not in _PROPERTY_SECTIONS):
            yield from _flatten(value, f"{full}.")
        else:
            yield full, value


def _sets(values: Mapping[str, Any], name: str) -> bool:
    """Whether an origin sets a setting, or a part of it."""
    return name in values or any(key.startswith(f"{name}.") for key in values)


def _redact(name: str, value: Any, unresolved: Any) -> Any:
    """Return the value as it may be shown: references unresolved, secrets hidden."""
    from livejoin.config.settings_files import REFERENCE  # noqa: PLC0415 - slow to import

    if isinstance(unresolved, str) and REFERENCE.search(unresolved):
        value = unresolved
    if isinstance(value, SecretStr):
        return redaction.HIDDEN
    if not isinstance(value, str):
        return value
    section = next((key for key in _PROPERTY_SECTIONS if name.startswith(f"{key}.")), None)
    if section and not REFERENCE.fullmatch(value):
        key = name.removeprefix(f"{section}.")
        if redaction.may_be_secret(key, value):
            return redaction.HIDDEN
    return redaction.hide_url_login(value)


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
        kafka.check_advertised()
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
