"""The config command: effective settings without secrets."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from livejoin.cli.options import Config, Output
from livejoin.cli.output import format_table
from livejoin.redaction import HIDDEN

_CELL_CHARS = 1000
_SECRET_NAME = re.compile(r"pass|secret|token|credential|jaas|key|pem|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_REFERENCE = re.compile(r"\$\{(env|file):[^}]+\}")
_PROPERTY_SECTIONS = ("kafka", "spark.conf")  # their keys belong to Kafka and Spark


def config(config: Config = None, output: Output = "table") -> None:
    """Print the effective settings and where each comes from.

    Each comes from the file, the environment or a default. Values that may be secret are hidden,
    and references (`${env:NAME}`, `${file:PATH}`) are printed unresolved, so the output can be
    shared.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import

    rows = setting_rows(settings.load(config).model_dump(), settings.values_by_origin(config))
    if output == "json":
        print(json.dumps(rows))
        return
    for line in format_table(rows, ["setting", "value", "from"], _CELL_CHARS):
        print(line)


def setting_rows(
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
    if isinstance(unresolved, str) and _REFERENCE.search(unresolved):
        value = unresolved
    if isinstance(value, SecretStr):
        return HIDDEN
    if not isinstance(value, str):
        return value
    section = next((key for key in _PROPERTY_SECTIONS if name.startswith(f"{key}.")), None)
    if section and not _REFERENCE.fullmatch(value):
        key = name.removeprefix(f"{section}.")
        if _SECRET_NAME.search(key) or _SECRET_VALUE.search(value):
            return HIDDEN
    return _URL_LOGIN.sub(HIDDEN, value)
