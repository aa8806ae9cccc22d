"""The command that shows the settings in force, with nothing in it that is secret."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from livejoin.cli.options import Config, Output
from livejoin.cli.text import table_lines
from livejoin.redaction import HIDDEN

_LONG = 1000
_SECRET = re.compile(r"pass|secret|token|credential|jaas|key|pem|signature", re.IGNORECASE)
_SECRET_INSIDE = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # of an address
_ELSEWHERE = re.compile(r"\$\{(env|file):[^}]+\}")
_OPEN = ("kafka", "spark.conf")  # sections whose keys are not ours


def config(config: Config = None, output: Output = "table") -> None:
    """Print the settings in force, and where each comes from.

    That is the file, the environment or a default. What may be secret is hidden, and a value that
    is taken from elsewhere (`${env:NAME}`, `${file:PATH}`) is shown as it is written, so that the
    output can be shown to others.
    """
    from livejoin.config import settings  # noqa: PLC0415 - takes a while to import

    rows = shown(settings.load(config).model_dump(), settings.sources(config))
    if output == "json":
        print(json.dumps(rows))
        return
    for line in table_lines(rows, ["setting", "value", "from"], _LONG):
        print(line)


def shown(
    chosen: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The settings one by one. `sources` are what was given, the strongest first."""
    given = {source: dict(_flat(values)) for source, values in sources.items()}
    rows = []
    for name, value in _flat(chosen):
        source = next((one for one, values in given.items() if _has(values, name)), "default")
        written = given.get(source, {}).get(name)
        rows.append({"setting": name, "value": _harmless(name, value, written), "from": source})
    return rows


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    for name, value in values.items():
        full = f"{above}{name}"
        if isinstance(value, Mapping) and (value or full not in _OPEN):
            yield from _flat(value, f"{full}.")
        else:
            yield full, value


def _has(values: Mapping[str, Any], name: str) -> bool:
    """Whether a source gives a setting, or a part of it."""
    return name in values or any(given.startswith(f"{name}.") for given in values)


def _harmless(name: str, value: Any, written: Any) -> Any:
    if isinstance(written, str) and _ELSEWHERE.search(written):
        value = written
    if isinstance(value, SecretStr):
        return HIDDEN
    if not isinstance(value, str):
        return value
    section = next((one for one in _OPEN if name.startswith(f"{one}.")), None)
    if section and not _ELSEWHERE.fullmatch(value):
        own = name.removeprefix(f"{section}.")
        if _SECRET.search(own) or _SECRET_INSIDE.search(value):
            return HIDDEN
    return _LOGIN.sub(HIDDEN, value)
