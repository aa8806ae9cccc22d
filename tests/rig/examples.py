"""Random records with few keys each, and a check of the tables that result from their changelog."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from livejoin.core import changelog, spec
from livejoin.core.generation import Generation
from livejoin.kafka.records import Record
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.catalog import GenerationTables
from livejoin.tables.ingest.store import Delta
from rig import oracle

SEED = 20261115
EXAMPLES = 120
LARGE_EXAMPLES, LARGE_RECORDS = (
    2,
    180,
)  # larger examples, with so many records per key that rows are bundled
MIN_BUNDLE, MAX_BUNDLE = 25, 20  # lower limits, so that these examples are bundled at all
NOW = 1_700_000_000_000

# The spellings of userIds in JSON; some spellings are one key. N is the number of the example.
FAMILIES = (
    *((f'"N.{i}"',) for i in range(8)),
    ('"N.a"', '"N.b"', '"N.c"'),
    ('"N"', "N"),
    ('"N.50"', "N.50", "N.5", "N5e-1"),
    ('"kN"', '"KN"', '" kN"', '"kN "'),
    ('"éN"', '"\\u00e9N"', '"e\u0301N"'),
    ('"𝄞N"', '"\\ud834\\udd1eN"', '"☃N"'),
    (f'"{"x" * 9000}Ny"', f'"{"x" * 9000}Nz"'),
    ('"-users-0 N"', '"=/N+0-1"', '"\\u0000N"', '"]N}"', '"\u202eN\\n\\""'),
)
SHARED_KEYS = ('""', "null", "", "true", '"true"')  # keys shared by examples; "" omits the field
BROKEN = (
    b'{"userId": "cut', b"[]", b"7", b"", b'{"userId": "\xff"}', b'{"userId": {"a": 1}}',
    b'{"age": "abc", "balance": "abc"}', b'{"age": 30.5, "balance": true}', b'{"userId": "x"} {}',
)  # fmt: skip


@dataclass(frozen=True)
class Input:
    """A record to be sent."""

    source: str
    value: bytes | None
    partition: int
    timestamp: int


@dataclass(frozen=True)
class Example:
    """The history of a few keys in four parts, separated by a crash, a commit and a crash."""

    number: int
    parts: tuple[tuple[Input, ...], ...]

    def __str__(self) -> str:
        lines = [f"example {self.number} of seed {SEED}"]
        for number, part in enumerate(self.parts):
            lines += [
                f"  part {number} {one.source} partition {one.partition}"
                f" at {one.timestamp - NOW}: {(one.value or b'tombstone')[-120:]!r}"
                for one in part
            ]
        return "\n".join(lines)


def examples() -> list[Example]:
    """Return the same examples on each call."""
    dice = random.Random(SEED)
    serial = iter(range(10**9))
    small = [_example(number, dice, serial) for number in range(EXAMPLES)]
    return small + [
        _large_example(EXAMPLES + number, dice, serial) for number in range(LARGE_EXAMPLES)
    ]


def _example(number: int, dice: random.Random, serial: Iterator[int]) -> Example:
    family = [text.replace("N", str(1000 + number)) for text in dice.choice(FAMILIES)]
    users = dice.choice([0.15, 0.4, 0.4, 0.8])
    long = dice.random() < 0.05
    inputs = [
        _input(dice, family, users, serial) for _ in range(60 if long else dice.randint(3, 20))
    ]
    return _in_parts(number, inputs, [dice.randint(0, len(inputs)) for _ in range(3)])


def _large_example(number: int, dice: random.Random, serial: Iterator[int]) -> Example:
    inputs = [_input(dice, [f'"{1000 + number}"'], 0.5, serial) for _ in range(LARGE_RECORDS)]
    # many records before the first crash
    return _in_parts(
        number, inputs, [dice.randint(LARGE_RECORDS // 2, LARGE_RECORDS) for _ in range(3)]
    )


def _in_parts(number: int, inputs: list[Input], cuts: list[int]) -> Example:
    edges = [0, *sorted(cuts), len(inputs)]
    return Example(number, tuple(tuple(inputs[a:b]) for a, b in itertools.pairwise(edges)))


def _input(dice: random.Random, family: list[str], users: float, serial: Iterator[int]) -> Input:
    source = "users" if dice.random() < users else "accounts"
    # few distinct times: many are equal, and the newest record is seldom the last
    at = dice.randrange(2), NOW + dice.randrange(6)
    kind = dice.random()
    if kind < 0.06:
        return Input(source, None, *at)
    if kind < 0.14:
        return Input(source, dice.choice(BROKEN), *at)
    key = dice.choice(SHARED_KEYS if kind < 0.19 else family)
    number = next(serial)
    # these values identify the record that a row comes from
    cells_of_source = (
        {"name": f'"n{number}"', "email": '"e"', "age": dice.choice(["7", '"7"', "7.0", "null"])}
        if source == "users"
        else {"accountType": f'"t{number}"', "balance": f"{number}"}
    )
    if dice.random() < 0.2:
        cells_of_source.pop(dice.choice(sorted(cells_of_source)))
    if source == "accounts" and dice.random() < 0.03:
        cells_of_source = {}
    cells = ({"userId": key} if key else {}) | cells_of_source
    text = ", ".join(f'"{name}": {cell}' for name, cell in cells.items())
    return Input(source, f"{{{text}}}".encode(), *at)


@contextmanager
def small_bundles() -> Iterator[None]:
    """Lower the bundle limits for queries started in this block."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changelog, "BUNDLE_MIN_ROWS", MIN_BUNDLE)
        patched.setattr(changelog, "BUNDLE_MAX_ROWS", MAX_BUNDLE)
        yield


Tables = dict[str, dict[str, dict[str, Any]]]
DeltaHandler = Callable[[GenerationTables, list[tuple[str, Delta]]], None]


def build_tables(
    written: Sequence[Record], on_deltas: DeltaHandler = lambda _held, _deltas: None
) -> GenerationTables:
    """Apply a changelog in chunks of random size."""
    dice = random.Random(SEED)
    generation_tables = GenerationTables(
        Generation(1, spec.DEFAULT.choice("", "", join="left_outer"), 0.0), rejects_kept=10**6
    )
    at = 0
    while at < len(written):
        size = dice.choice([1, 3, 30, 300])
        records = [(record.key, record.value) for record in written[at : at + size]]
        on_deltas(
            generation_tables,
            generation_tables.apply(
                decode.decoder(spec.DEFAULT).decode_chunk(1, at + len(records), records)
            ),
        )
        at += size
    return generation_tables


def tables(generation_tables: GenerationTables) -> Tables:
    """Return all rows of the data tables by id."""
    return {
        name: {row["_id"]: row for row in generation_tables.stores[name].snapshot().to_pylist()}
        for name in spec.DEFAULT.data_tables
    }


Owners = Mapping[changelog.Position, Example]
Acknowledged = Mapping[str, Sequence[oracle.Sent]]


def check(
    sent: Acknowledged, owner: Owners, join: spec.Join, generation_tables: GenerationTables
) -> None:
    """Compare all tables with the oracle; on a difference, name the example it comes from."""
    wrong = oracle.differences(tables(generation_tables), oracle.expected(sent, join))
    assert not wrong, _explained(owner, wrong)


def _explained(owner: Owners, wrong: list[oracle.Difference]) -> str:
    lines = [f"{len(wrong)} rows are wrong"]
    for one in wrong[:3]:
        where = one.id.split("/")[-1].split("+")[0]
        source = "accounts" if "accounts" in (one.table + one.id) else "users"
        partition, offset = map(int, where.split("-"))
        found, expected = (short(row) for row in (one.found, one.expected))
        lines.append(f"{one.table} {one.id} is {found}, should be {expected}")
        lines.append(str(owner[changelog.Position(source, partition, offset)]))
    return "\n".join(lines)


def short(row: dict[str, Any] | None) -> str:
    """The end of a row, for a message."""
    return "not there" if row is None else json.dumps(row, default=str)[-300:]
