"""Settings before validation: the YAML file and `${env:NAME}`, `${file:PATH}` references.

Property names of Kafka and Spark are normalized here, so that several sources can be merged.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from livejoin import redaction
from livejoin.errors import SettingsError
from livejoin.kafka import clusters, properties

# What a setting refers to, instead of containing it.
REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def normalize(data: dict[str, Any]) -> dict[str, Any]:
    """Return settings with Kafka and Spark properties as text, under normalized names."""
    data = dict(data)
    for section in clusters.SECTIONS:
        if isinstance(block := data.get(section), dict):
            texts = _to_texts(section, block)
            data[section] = {properties.canonical_name(key): texts[key] for key in texts}
    if isinstance(spark := data.get("spark"), dict) and isinstance(conf := spark.get("conf"), dict):
        data["spark"] = {**spark, "conf": _to_texts("spark.conf", conf)}
    return data


def read_file(file: Path) -> dict[str, Any]:
    """Parse a YAML settings file."""
    try:
        data = yaml.safe_load(file.read_text())
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror}", hint="Name a settings file with -c."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # str(error) would quote the line, which may hold a secret
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", "")
        line = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"{file} is not YAML{line}: {problem or 'not UTF-8 text'}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise SettingsError(
            f"{file} does not contain a mapping, but a {type(data).__name__}",
            hint="Write settings as `name: value`.",
        )
    if invalid := [key for key in data if not isinstance(key, str)]:
        raise SettingsError(f"{file}: unknown setting {invalid[0]!r}: names must be text")
    return data


def line_of(file: Path, setting: Sequence[str]) -> int | None:
    """The line of a setting in a YAML file that can be parsed; of the nearest one above it."""
    node, line = yaml.compose(file.read_text()), None
    for name in setting:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next((pair for pair in pairs if pair[0].value == name), None)
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def plain_secrets(data: dict[str, Any]) -> list[str]:
    """Return the settings that contain a secret in plain text instead of a reference."""
    found = []
    for section in clusters.SECTIONS:
        for name, value in (data.get(section) or {}).items():
            if properties.is_secret(name) and not REFERENCE.search(str(value)):
                found.append(f"{section}.{name}")
    for name, value in ((data.get("spark") or {}).get("conf") or {}).items():
        if redaction.is_spark_secret(name, "") and not REFERENCE.search(str(value)):
            found.append(f"spark.conf.{name}")
    return found


def _to_texts(section: str, block: dict[Any, Any]) -> dict[str, str | SecretStr]:
    """Properties as text; YAML's empty value is none."""
    given = {str(key): value for key, value in block.items() if value is not None}
    return {key: _to_text(f"{section}.{key}", value) for key, value in given.items()}


def _to_text(name: str, value: Any) -> str | SecretStr:
    if isinstance(value, SecretStr):
        return value
    if isinstance(value, dict | list):
        is_list = isinstance(value, list)
        raise SettingsError(
            f"{name}: expected text, got a {'list' if is_list else 'mapping'}",
            hint="Write its values as one text, with commas."
            if is_list
            else "Write the whole name of each property, such as `ssl.ca.location: …`.",
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve_references(data: Any) -> Any:
    """Replace all references by the values they refer to."""
    if isinstance(data, dict):
        return {key: resolve_references(value) for key, value in data.items()}
    if isinstance(data, str):
        return REFERENCE.sub(_resolve, data)
    return data


def _resolve(match: re.Match[str]) -> str:
    kind, name = match.groups()
    if kind == "env":
        if name not in os.environ:
            raise ValueError(f"environment variable {name} is not set")
        return os.environ[name]
    try:
        return Path(name).expanduser().read_text().strip()
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
