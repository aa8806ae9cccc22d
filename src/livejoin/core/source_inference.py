"""Proposes fields of a source from samples of its records: names, paths, types, what does not fit.

A proposal is a start for a person: the samples may not contain every field or kind of value.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from livejoin.core.json_object import parse_object
from livejoin.core.spec import Column, Type

MAX_FIELDS = 100
_MAX_DEPTH = 8
_USUAL_SHARE = 0.95  # of the values of a field; others are taken for mistakes
_INT64 = range(-(2**63), 2**63)
_MS_OF_OUR_TIME = range(946_684_800_000, 4_102_444_800_000)  # the years 2000 to 2099
_TIME_NAME = re.compile(r"(?:.*(?:At|_at|[tT]ime|[tT]imestamp|Ts|_ts|[dD]ate)|at|ts)")
_ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:?\d\d)", re.ASCII
)
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
_KEY_NAME = re.compile(r"(?:.*(?:Id|ID|_id)|id|ID|key|.*Key)")

Path = tuple[str, ...]


@dataclass(frozen=True)
class InferredField:
    """A proposed field, with the number of samples that have it, and that do not fit its type."""

    column: Column
    present: int
    misfits: int
    example: str = ""  # of a value that does not fit


@dataclass(frozen=True)
class InferredSource:
    """Proposed fields and key of a source."""

    samples: int  # records with a value
    objects: int  # of these, the ones that are JSON objects
    fits: int  # records that fit all proposed fields
    fields: tuple[InferredField, ...] = ()
    key: str = ""  # empty: no field looks like one
    skipped: tuple[str, ...] = ()  # paths that cannot be a field

    @property
    def share(self) -> float:
        """Share of the samples that fit."""
        return self.fits / self.samples if self.samples else 0.0


def infer_source(values: Iterable[bytes]) -> InferredSource:
    """Propose a source from record values."""
    samples = [parse_object(value) for value in values]
    objects = [sample for sample in samples if sample is not None]
    flat = [dict(_values(one)) for one in objects]
    scalars = Counter(
        path for one in flat for path, value in one.items() if not isinstance(value, dict)
    )
    paths = _field_paths(scalars, Counter(path for one in flat for path in one))
    names = _names(paths)
    fields, misfits = [], set[int]()
    for path, name in zip(paths, names, strict=True):
        found = {number: one[path] for number, one in enumerate(flat) if path in one}
        field, wrong = _infer_field(path, name, found)
        fields.append(field)
        misfits.update(wrong)
    return InferredSource(
        len(samples),
        len(objects),
        len(objects) - len(misfits),
        tuple(fields),
        _likely_key(fields),
        tuple(f"$.{'.'.join(path)}" for path in scalars if path not in paths),
    )


def _values(value: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value at any level with its path; nulls are as good as absent."""
    for name, child in value.items():
        path = (*above, name)
        if child is not None:
            yield path, child
        if isinstance(child, dict) and len(path) < _MAX_DEPTH:
            yield from _values(child, path)


def _field_paths(scalars: Mapping[Path, int], present: Mapping[Path, int]) -> list[Path]:
    """The paths to propose, in the order in which they were found.

    Of several that exclude each other (one leads into the other's value, or they differ by case
    only) the most frequent one is proposed.
    """
    chosen: dict[Path, Path] = {}  # by the path in lower case
    for path in sorted(scalars, key=lambda path: (-scalars[path], len(path))):
        lower = tuple(map(str.lower, path))
        if (
            all(map(_MEMBER.fullmatch, path))
            and 2 * scalars[path] >= present[path]
            and not any(lower[: len(one)] == one or one[: len(lower)] == lower for one in chosen)
        ):
            chosen[lower] = path
    return [path for path in scalars if path in chosen.values()][:MAX_FIELDS]


def _names(paths: Iterable[Path]) -> list[str]:
    """A name for each field: the last member of its path if that is unique, else all of them."""
    paths = list(paths)
    last = Counter(path[-1].lower() for path in paths)
    names: list[str] = []
    for path in paths:
        name = path[-1] if last[path[-1].lower()] == 1 else "_".join(path)
        name = name if _NAME.fullmatch(name) else f"f_{name}"[:64]
        taken = {other.lower() for other in names}
        number = 2
        unique = name
        while unique.lower() in taken:
            unique, number = f"{name}{number}", number + 1
        names.append(unique)
    return names


def _infer_field(path: Path, name: str, found: Mapping[int, Any]) -> tuple[InferredField, set[int]]:
    """A field and the samples whose value does not fit it."""
    kind = _best_type(name, list(found.values()))
    wrong = {number for number, value in found.items() if not _fits(value, kind)}
    text = f"$.{'.'.join(path)}"
    column = Column(name, kind, "" if path == (name,) else text)
    example = repr(found[min(wrong)])[:40] if wrong else ""
    return InferredField(column, len(found), len(wrong), example), wrong


def _best_type(name: str, values: list[Any]) -> Type:
    """The narrowest type that nearly all values fit."""
    candidates: list[Type] = ["boolean", "int64", "double"]
    if _TIME_NAME.fullmatch(name) or all(_is_iso_time(value) for value in values):
        candidates.insert(0, "timestamp")
    for kind in candidates:
        fitting = sum(_fits(value, kind) and not _is_number_text(value) for value in values)
        if fitting >= _USUAL_SHARE * len(values):
            return kind
    return "string"


def _fits(value: Any, kind: Type) -> bool:
    if isinstance(value, dict | list):
        return False
    match kind:
        case "boolean":
            return isinstance(value, bool) or value in ("true", "false")
        case "timestamp":
            return _is_iso_time(value) or (type(value) is int and value in _MS_OF_OUR_TIME)
        case "int64":
            return (type(value) is int and value in _INT64) or _is_number_text(value)
        case "double":
            return type(value) in (int, float) or _is_number_text(value)
    return True


def _is_number_text(value: Any) -> bool:
    """A text that is a number: often a code that must keep its spelling."""
    return isinstance(value, str) and bool(re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", value))


def _is_iso_time(value: Any) -> bool:
    if not isinstance(value, str) or not _ISO_TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _likely_key(fields: Iterable[InferredField]) -> str:
    """The first field that is named like a key and can be one, the most frequent one first."""
    keys = [field for field in fields if field.column.type in ("string", "int64")]
    named = [field for field in keys if _KEY_NAME.fullmatch(field.column.name)]
    return max(named, key=lambda field: field.present).column.name if named else ""
