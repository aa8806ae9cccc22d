"""What is wrong with the settings, in the words of the settings file."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pydantic

from livejoin.config import settings_files
from livejoin.config.sources import InvalidSources
from livejoin.core.names import nearest
from livejoin.kafka import clusters

_MAY_BE_SECRET = {*clusters.SECTIONS, "spark"}  # values of these sections are not shown


def explain(
    error: pydantic.ValidationError, settings: type[pydantic.BaseModel], file: Path | None
) -> str:
    """Name every wrong setting; an unknown one with the nearest that is known."""
    return "; ".join(_explain(one, settings, file) for one in error.errors())


def _explain(error: Any, settings: Any, file: Path | None) -> str:
    where = error["loc"]
    if isinstance(cause := error.get("ctx", {}).get("error"), InvalidSources):
        return _explain_sources(cause, file)
    if error["type"] == "extra_forbidden":
        section = settings
        for part in where[:-1]:
            section = section.model_fields[part].annotation
        return _unknown(where, section.model_fields)
    if where[-1:] == ("[key]",):  # of a mapping whose keys are known
        return _unknown(where[:-1], re.findall("'(.*?)'", error["ctx"]["expected"]))
    message = error["msg"].removeprefix("Value error, ")
    value = "" if {*where[:1]} <= _MAY_BE_SECRET else f", got {error['input']!r}"
    return f"{_dotted(where)}: {message}{value}" if where else message


def _explain_sources(error: InvalidSources, file: Path | None) -> str:
    """Problems of declared sources, each on a line of its own, with its place in the file."""
    lines = (settings_files.line_of(file, one.setting) if file else None for one in error.problems)
    return "\n".join(
        f"{file}, line {line}: {problem}" if line else str(problem)
        for problem, line in zip(error.problems, lines, strict=True)
    )


def _unknown(name: Sequence[Any], known: Collection[str]) -> str:
    close = nearest(str(name[-1]), known)
    hint = f"did you mean {close}?" if close else f"known are {', '.join(known)}"
    return f"unknown setting {_dotted(name)}: {hint}"


def _dotted(name: Sequence[Any]) -> str:
    return ".".join(map(str, name))
