"""The hash of a table, and of what viewers are shown of it: sums that are kept up to date.

Rows are hashed when somebody asks, many at a time.
"""

import numpy as np

from livejoin import row_hash
from livejoin.tables.ingest.segments import Rows


class Sums:
    """Sums over the living rows, and over those that viewers are shown."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._all = 0
        self._inside = 0
        self._waiting: list[np.ndarray] = []  # positions that are in no sum yet

    def add(self, positions: np.ndarray) -> None:
        """These rows have come; whether they live is looked at when somebody asks."""
        self._waiting.append(positions)

    def remove(self, positions: np.ndarray) -> None:
        """These rows are about to die."""
        there = positions[self._rows.summed[positions]]
        self._all -= row_hash.total(self._rows.hash[there])
        self._rows.summed[there] = False
        self._hide(there)

    def hide(self, positions: np.ndarray) -> None:
        """Viewers are about not to be shown these rows."""
        self._hide(positions[self._rows.summed[positions]])

    def _hide(self, there: np.ndarray) -> None:
        self._inside -= row_hash.total(self._rows.hash[there[self._rows.inside[there]]])

    def show_all(self) -> None:
        """Viewers are shown all rows."""
        self.settle()
        self._inside = self._all

    def settle(self) -> None:
        """Have all living rows in the sums."""
        if not self._waiting:
            return
        rows = self._rows
        # together: 500 rows that came one by one would hold up everybody for half a second
        new = np.concatenate(self._waiting)
        self._waiting = []
        new = new[rows.alive[new] & ~rows.summed[new]]
        unknown = new[~rows.known[new]]
        if len(unknown):
            batches = rows.cells(unknown).to_batches()
            rows.hash[unknown] = np.concatenate([row_hash.of_rows(batch) for batch in batches])
            rows.known[unknown] = True
        rows.summed[new] = True
        self._all += row_hash.total(rows.hash[new])
        self._inside += row_hash.total(rows.hash[new[rows.inside[new]]])

    @property
    def all(self) -> str:
        """The hash of all rows, 16 hex digits."""
        self.settle()
        return row_hash.text(self._all)

    @property
    def inside(self) -> str:
        """The hash of the rows that viewers are shown."""
        self.settle()
        return row_hash.text(self._inside)
