"""The command `config`: the effective settings, and where each comes from."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from livejoin import redaction
from livejoin.cli.options import Config, Output
from livejoin.cli.output import LONG_CELL_CHARS, format_table, print_warnings
from livejoin.core.spec import FINAL, ID, TS, JoinSpec

# their keys belong to Kafka and Spark
_PROPERTY_SECTIONS = ("kafka", "kafka_data", "kafka_control", "own_topics.config", "spark.conf")


def config(config: Config = None, output: Output = "table") -> None:
    """Print the effective settings and where each comes from.

    Each comes from the file, the environment or a default. Values that may be secret are hidden,
    and references (`${env:NAME}`, `${file:PATH}`) are printed unresolved, so the output can be
    shared. Warnings about the settings go to standard error.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import

    chosen = settings.load(config)
    print_warnings(chosen.warnings)
    rows = _setting_rows(chosen.model_dump(), settings.values_by_origin(config))
    if output == "json":
        print(json.dumps(rows))
        return
    for line in format_table(rows, ["setting", "value", "from"], LONG_CELL_CHARS):
        print(line)
    if chosen.sources:
        print()
        for line in format_table(_table_rows(chosen.join_spec), ["table", "columns"]):
            print(line)


def _table_rows(join_spec: JoinSpec) -> list[dict[str, Any]]:
    """Return the data tables with their columns, the join first."""
    names = (FINAL, *(source.table for source in join_spec.sources))
    columns = {name: join_spec.tables[name].columns for name in names}
    return [
        {"table": name, "columns": ", ".join(f"{c.name} {c.type}" for c in of if c not in (ID, TS))}
        for name, of in columns.items()
    ]


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
