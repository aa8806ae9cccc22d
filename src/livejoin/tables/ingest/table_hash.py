"""The hash of a table, and of what viewers are shown of it: sums that are kept up to date.

Rows are hashed when somebody asks, many at a time.
"""

import numpy as np

from livejoin import row_hash
from livejoin.tables.ingest.segments import SegmentedRows


class TableHash:
    """Sums over the living rows, and over those that viewers are shown."""

    def __init__(self, rows: SegmentedRows) -> None:
        self._rows = rows
        self._sum = 0
        self._visible_sum = 0
        self._pending: list[np.ndarray] = []  # positions that are in no sum yet

    def add(self, positions: np.ndarray) -> None:
        """These rows have come; whether they live is looked at when somebody asks."""
        self._pending.append(positions)

    def remove(self, positions: np.ndarray) -> None:
        """These rows are about to die."""
        there = positions[self._rows.summed[positions]]
        self._sum -= row_hash.sum_hashes(self._rows.hash[there])
        self._rows.summed[there] = False
        self._hide(there)

    def hide(self, positions: np.ndarray) -> None:
        """Viewers are about not to be shown these rows."""
        self._hide(positions[self._rows.summed[positions]])

    def _hide(self, there: np.ndarray) -> None:
        self._visible_sum -= row_hash.sum_hashes(self._rows.hash[there[self._rows.inside[there]]])

    def show_all(self) -> None:
        """Viewers are shown all rows."""
        self.hash_pending()
        self._visible_sum = self._sum

    def hash_pending(self) -> None:
        """Have all living rows in the sums."""
        if not self._pending:
            return
        rows = self._rows
        # together: 500 rows that came one by one would hold up everybody for half a second
        new = np.concatenate(self._pending)
        self._pending = []
        new = new[rows.alive[new] & ~rows.summed[new]]
        unknown = new[~rows.known[new]]
        if len(unknown):
            batches = rows.rows_at(unknown).to_batches()
            rows.hash[unknown] = np.concatenate([row_hash.hash_rows(batch) for batch in batches])
            rows.known[unknown] = True
        rows.summed[new] = True
        self._sum += row_hash.sum_hashes(rows.hash[new])
        self._visible_sum += row_hash.sum_hashes(rows.hash[new[rows.inside[new]]])

    @property
    def full(self) -> str:
        """The hash of all rows, 16 hex digits."""
        self.hash_pending()
        return row_hash.to_hex(self._sum)

    @property
    def visible(self) -> str:
        """The hash of the rows that viewers are shown."""
        self.hash_pending()
        return row_hash.to_hex(self._visible_sum)
