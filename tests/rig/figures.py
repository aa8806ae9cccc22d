"""What one test has done and checked, in figures: faults that landed, rows and cells compared.

The rig counts by itself what goes through it: kills, swaps, comparisons with the oracle. A test
adds what only it knows, by the fixture `case`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Figures:
    """Of one test. Everything is a sum but the seed and the worst recovery."""

    seed: int | None = None
    faults: Counter[str] = field(default_factory=Counter)  # that landed, by their kind
    rows: int = 0  # compared with the oracle, cell by cell
    cells: int = 0
    lost: int = 0  # rows that should have been there
    wrong: int = 0  # cells that were not what they should have been, and rows that were too many
    dropped: int = 0  # viewers that lost their connection to a server that lived
    worst_recovery_s: float | None = None
    notes: list[str] = field(default_factory=list)

    def seeded(self, seed: int) -> Self:
        """The seed of all that was random."""
        self.seed = seed
        return self

    def landed(self, **kinds: int) -> Self:
        """Faults, or other things that were done: kills, swaps, messages."""
        self.faults.update(kinds)
        return self

    def checked(self, rows: int, cells: int, lost: int = 0, wrong: int = 0) -> Self:
        """A comparison of tables with what they should be."""
        self.rows += rows
        self.cells += cells
        self.lost += lost
        self.wrong += wrong
        return self

    def recovered(self, seconds: float) -> Self:
        """How long it took after a fault until everything was as before."""
        self.worst_recovery_s = max(self.worst_recovery_s or 0.0, seconds)
        return self

    def viewers_dropped(self, count: int) -> Self:
        """Viewers that a living server let go of."""
        self.dropped += count
        return self

    def note(self, text: str) -> Self:
        """A measured figure that has no column."""
        self.notes.append(text)
        return self

    def as_json(self) -> dict[str, Any]:
        """As it is kept. What is zero is kept too: it was looked for."""
        worst = self.worst_recovery_s
        return {
            "seed": self.seed,
            "landed": {kind: count for kind, count in sorted(self.faults.items()) if count},
            "rows": self.rows,
            "cells": self.cells,
            "lost": self.lost,
            "wrong": self.wrong,
            "dropped": self.dropped,
            "worst_recovery_s": None if worst is None else round(worst, 1),
            "notes": self.notes,
        }


_now: list[Figures] = [Figures()]


def now() -> Figures:
    """Of the test that runs."""
    return _now[-1]


def begin() -> Figures:
    """Another test begins."""
    _now[:] = [Figures()]
    return now()


def cells_of(tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[int, int]:
    """How many rows some tables have, and how many cells."""
    rows = [row for table in tables.values() for row in table.values()]
    return len(rows), sum(map(len, rows))
