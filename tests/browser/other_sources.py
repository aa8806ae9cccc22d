"""Sources that no code of the page can know: random names, several lookups, every type."""

import json
import string
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from random import Random
from typing import Any

from livejoin.core.changelog import ChangelogRecord
from livejoin.core.spec import Choice, Column, JoinSpec, Source

HOUR_MS = 3_600_000
BASE_MS = 1_700_000_000_000


def random_name(random: Random) -> str:
    """A name of a source or field."""
    rest = random.choices(string.ascii_letters + string.digits + "_", k=random.randint(3, 9))
    return random.choice(string.ascii_letters) + "".join(rest)


class OtherSources:
    """A driver with a boolean, a timestamp and a decimal, and lookups with a number each.

    Every third record of the driver has nulls. A lookup has a record for every second key.
    """

    def __init__(self, seed: int, lookups: int = 2) -> None:
        random = Random(seed)
        used = iter(dict.fromkeys(random_name(random).lower() for _ in range(100)))
        self.key, self.flag, self.at, self.total = (next(used) for _ in range(4))
        self.names = [next(used) for _ in range(1 + lookups)]
        self.amounts = [next(used) for _ in range(lookups)]
        driver = [
            Column(self.key, "string"),
            Column(self.flag, "boolean"),
            Column(self.at, "timestamp"),
            Column(self.total, "decimal(15,2)"),
        ]
        others = [(Column(self.key, "string"), Column(amount, "int64")) for amount in self.amounts]
        self.join_spec = JoinSpec(
            tuple(
                Source(name, tuple(fields), self.key)
                for name, fields in zip(self.names, [driver, *others], strict=True)
            )
        )
        self.choice = self.chosen("a")

    @property
    def tables(self) -> list[str]:
        """The tables of the sources, the driver's first."""
        return [source.table for source in self.join_spec.sources]

    @property
    def fields(self) -> list[str]:
        """The topic fields of a control message."""
        return [source.topic_field for source in self.join_spec.sources]

    def chosen(self, variant: str) -> Choice:
        """The topics of one variant: a or b."""
        return self.join_spec.choice(*(f"{name}.{variant}" for name in self.names))

    def topics(self, count: int) -> Mapping[str, Sequence[bytes]]:
        return {
            f"{name}.{variant}": [
                json.dumps(self._record(variant, at, n)).encode() for n in range(count)
            ]
            for at, name in enumerate(self.names)
            for variant in "ab"
        }

    def totals(self, count: int) -> list[str | None]:
        """The decimals of the driver."""
        return [self._driver(n).get(self.total) for n in range(count)]

    @property
    def columns(self) -> list[str]:
        """The columns of the driver's table."""
        return [column.name for column in self.join_spec.driver.fields]

    def changed(self, text: str) -> "OtherSources":
        """The same driver with a text instead of its decimal, and one lookup of another name."""
        other = copy(self)
        driver = self.join_spec.driver
        kept = tuple(column for column in driver.fields if column.name != self.total)
        other.names, other.amounts = [self.names[0], "fresh"], ["amount"]
        other.join_spec = JoinSpec(
            (
                replace(driver, fields=(*kept, Column(text, "string"))),
                Source("fresh", (Column(self.key, "string"), Column("amount", "int64")), self.key),
            )
        )
        other.choice = other.chosen("b")
        return other

    def _record(self, variant: str, at: int, n: int) -> dict[str, Any]:
        return {self.key: f"{variant}{n:03}", **(self._lookup(at, n) if at else self._driver(n))}

    def _driver(self, n: int) -> dict[str, Any]:
        if n % 3 == 2:
            return {}
        total = f"{(-1) ** n * 10**n}.{n:02}" if n < 12 else f"{n}.00"
        return {self.flag: n % 2 == 0, self.at: BASE_MS + n * HOUR_MS, self.total: total}

    def _lookup(self, at: int, n: int) -> dict[str, Any]:
        return {self.amounts[at - 1]: 100 * at + n} if n % 2 == 0 else {}

    def rows(self, choice: Choice, count: int) -> Iterator[ChangelogRecord]:
        now, variant = int(time.time() * 1000), choice.topics[self.names[0]][-1]
        for n in range(count):
            joined: dict[str, Any] = {}
            for at, table in enumerate(self.tables):
                record = self._record(variant, at, n)
                joined |= record
                if at and len(record) == 1:
                    continue
                yield ChangelogRecord(table, f"0-{n}", record, now - 60 * (count - n))
            yield ChangelogRecord("final_ui", f"0-{n}", joined, now - 60 * (count - n))
