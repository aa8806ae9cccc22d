"""The command that shows the settings in force, with nothing in it that is secret."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from livejoin.cli.options import Config, Output
from livejoin.cli.text import format_table
from livejoin.redaction import HIDDEN

_CELL_CHARS = 1000
_SECRET_NAME = re.compile(r"pass|secret|token|credential|jaas|key|pem|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # of an address
_REFERENCE = re.compile(r"\$\{(env|file):[^}]+\}")
_PROPERTY_SECTIONS = ("kafka", "spark.conf")  # sections whose keys are not ours


def config(config: Config = None, output: Output = "table") -> None:
    """Print the settings in force, and where each comes from.

    That is the file, the environment or a default. What may be secret is hidden, and a value that
    is taken from elsewhere (`${env:NAME}`, `${file:PATH}`) is shown as it is written, so that the
    output can be shown to others.
    """
    from livejoin.config import settings  # noqa: PLC0415 - takes a while to import

    rows = setting_rows(settings.load(config).model_dump(), settings.values_by_origin(config))
    if output == "json":
        print(json.dumps(rows))
        return
    for line in format_table(rows, ["setting", "value", "from"], _CELL_CHARS):
        print(line)


def setting_rows(
    chosen: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The settings one by one. `sources` are what was given, the strongest first."""
    given = {source: dict(_flatten(values)) for source, values in sources.items()}
    rows = []
    for name, value in _flatten(chosen):
        source = next((one for one, values in given.items() if _sets(values, name)), "default")
        written = given.get(source, {}).get(name)
        rows.append({"setting": name, "value": _redact(name, value, written), "from": source})
    return rows


def _flatten(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    for name, value in values.items():
        full = f"{above}{name}"
        if isinstance(value, Mapping) and (value or full not in _PROPERTY_SECTIONS):
            yield from _flatten(value, f"{full}.")
        else:
            yield full, value


def _sets(values: Mapping[str, Any], name: str) -> bool:
    """Whether a source gives a setting, or a part of it."""
    return name in values or any(given.startswith(f"{name}.") for given in values)


def _redact(name: str, value: Any, written: Any) -> Any:
    if isinstance(written, str) and _REFERENCE.search(written):
        value = written
    if isinstance(value, SecretStr):
        return HIDDEN
    if not isinstance(value, str):
        return value
    section = next((one for one in _PROPERTY_SECTIONS if name.startswith(f"{one}.")), None)
    if section and not _REFERENCE.fullmatch(value):
        own = name.removeprefix(f"{section}.")
        if _SECRET_NAME.search(own) or _SECRET_VALUE.search(value):
            return HIDDEN
    return _URL_LOGIN.sub(HIDDEN, value)
