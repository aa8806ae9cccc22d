"""The columns of parsed rows: a field of one source each, and the key of all."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import spec

Fields = Mapping[str, spec.Column]  # by source


@dataclass(frozen=True)
class Cell:
    """A column of parsed rows: a field of one source, or the key of all."""

    name: str  # as in `final_ui`
    type: spec.Type
    fields: Fields


@functools.lru_cache(maxsize=8)
def cells(joined: spec.JoinSpec) -> tuple[Cell, ...]:
    """The columns of parsed rows: those of `final_ui`."""
    key = Cell(joined.key.name, joined.key.type, {s.name: s.key_column for s in joined.sources})
    others = (
        Cell(joined.joined_names[source.name][column.name], column.type, {source.name: column})
        for source in joined.sources
        for column in source.fields
        if column.name != source.key
    )
    return (key, *others)


def by_source(fields: Fields, sources: int, use: Callable[[str, spec.Column], Column]) -> Column:
    """What `use` makes of the field of the record's source. Others of its fields are ignored."""
    places: dict[tuple[object, ...], list[str]] = {}
    for source, column in fields.items():
        places.setdefault((column.steps, column.label), []).append(source)
    if len(places) == 1 and len(fields) == sources:
        return use(*next(iter(fields.items())))
    found = None
    for having in places.values():
        value, is_here = use(having[0], fields[having[0]]), F.col("source").isin(having)
        found = F.when(is_here, value) if found is None else found.when(is_here, value)
    assert found is not None
    return found


def row_struct(joined: spec.JoinSpec, values: Sequence[Column]) -> Column:
    """A row of these values, in the order of its cells."""
    named = zip(values, cells(joined), strict=True)
    return F.struct(*(value.alias(cell.name) for value, cell in named))
