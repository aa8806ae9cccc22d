"""Figures of one test: faults injected, rows and cells compared.

The rig counts what it does itself: kills, swaps, comparisons with the oracle. A test adds its own
figures by the fixture `case`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Figures:
    """Figures of one test. All are sums except the seed and the worst recovery."""

    seed: int | None = None
    faults: Counter[str] = field(default_factory=Counter)  # faults injected, by kind
    rows: int = 0  # rows compared with the oracle, cell by cell
    cells: int = 0
    lost: int = 0  # rows missing
    wrong: int = 0  # wrong cells, and all cells of unexpected rows
    dropped: int = 0  # viewers disconnected by a running server
    worst_recovery_s: float | None = None
    notes: list[str] = field(default_factory=list)

    def seeded(self, seed: int) -> Self:
        """Record the seed of everything random."""
        self.seed = seed
        return self

    def landed(self, **kinds: int) -> Self:
        """Count faults or other actions: kills, swaps, messages."""
        self.faults.update(kinds)
        return self

    def checked(self, rows: int, cells: int, lost: int = 0, wrong: int = 0) -> Self:
        """Count a comparison of tables with the expected ones."""
        self.rows += rows
        self.cells += cells
        self.lost += lost
        self.wrong += wrong
        return self

    def recovered(self, seconds: float) -> Self:
        """Record the time from a fault until everything was as before."""
        self.worst_recovery_s = max(self.worst_recovery_s or 0.0, seconds)
        return self

    def viewers_dropped(self, count: int) -> Self:
        """Count viewers that were disconnected by a running server."""
        self.dropped += count
        return self

    def note(self, text: str) -> Self:
        """Add a measured figure that has no column."""
        self.notes.append(text)
        return self

    def as_json(self) -> dict[str, Any]:
        """As stored. Zeros are stored too, since they were checked."""
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
    """The figures of the running test."""
    return _now[-1]


def begin() -> Figures:
    """Start the figures of another test."""
    _now[:] = [Figures()]
    return now()


def cells_of(tables: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[int, int]:
    """Return the numbers of rows and cells of some tables."""
    rows = [row for table in tables.values() for row in table.values()]
    return len(rows), sum(map(len, rows))
