"""What is given as settings, before it is checked: a file, and texts that stand for others.

Properties of Kafka and Spark are brought under one spelling here, so that what stands in several
places can be laid over each other.
"""

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from livejoin import redaction
from livejoin.errors import SettingsError
from livejoin.kafka import properties

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def normalize(data: dict[str, Any]) -> dict[str, Any]:
    """Properties of Kafka and Spark as text, under one spelling, before sources are merged."""
    data = dict(data)
    if isinstance(kafka := data.get("kafka"), dict):
        data["kafka"] = {
            properties.canonical_name(str(key)): _to_text(value) for key, value in kafka.items()
        }
    if isinstance(spark := data.get("spark"), dict) and isinstance(conf := spark.get("conf"), dict):
        data["spark"] = {
            **spark,
            "conf": {str(key): _to_text(value) for key, value in conf.items()},
        }
    return data


def read_file(file: Path) -> dict[str, Any]:
    """What a file of settings holds."""
    try:
        data = yaml.safe_load(file.read_text())
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror}", hint="Name a settings file with -c."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # its own text would quote the line, which may hold a secret
        mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", "")
        where = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"{file} is not YAML{where}: {what or 'it is not text'}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise SettingsError(
            f"{file} holds no settings, but {type(data).__name__}",
            hint="It should read like `name: x`.",
        )
    if strange := [key for key in data if not isinstance(key, str)]:
        raise SettingsError(f"{file}: {strange[0]!r} is no setting: it is no text")
    return data


def plain_secrets(data: dict[str, Any]) -> list[str]:
    """The settings that hold a secret as it is, instead of saying where it is kept."""
    kafka, conf = data.get("kafka"), (data.get("spark") or {}).get("conf")
    found = [f"kafka.{name}" for name in kafka or {} if properties.is_secret(name)]
    found += [f"spark.conf.{name}" for name in conf or {} if redaction.is_spark_secret(name, "")]
    flat = {f"kafka.{name}": value for name, value in (kafka or {}).items()}
    flat |= {f"spark.conf.{name}": value for name, value in (conf or {}).items()}
    return [name for name in found if not _REFERENCE.search(str(flat[name]))]


def _to_text(value: Any) -> str | SecretStr:
    if isinstance(value, SecretStr):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolve_references(data: Any) -> Any:
    """The same, with what stands elsewhere in the place of where it stands."""
    if isinstance(data, dict):
        return {key: resolve_references(value) for key, value in data.items()}
    if isinstance(data, str):
        return _REFERENCE.sub(_resolve, data)
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
