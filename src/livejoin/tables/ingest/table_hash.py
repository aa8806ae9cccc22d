"""The hash of a table, and of the rows that viewers see: two sums kept up to date.

Rows are hashed on demand, many at a time.
"""

import numpy as np

from livejoin import row_hash
from livejoin.tables.ingest.segments import SegmentedRows


class TableHash:
    """The sum of row hashes over the alive rows, and over the visible ones."""

    def __init__(self, rows: SegmentedRows) -> None:
        self._rows = rows
        self._sum = 0
        self._visible_sum = 0
        self._pending: list[np.ndarray] = []  # positions not in the sums yet

    def add(self, positions: np.ndarray) -> None:
        """Add new rows; whether they are alive is checked when the hash is asked for."""
        self._pending.append(positions)

    def remove(self, positions: np.ndarray) -> None:
        """Subtract rows that are about to be marked dead."""
        summed = positions[self._rows.summed[positions]]
        self._sum -= row_hash.sum_hashes(self._rows.hash[summed])
        self._rows.summed[summed] = False
        self._hide(summed)

    def hide(self, positions: np.ndarray) -> None:
        """Subtract rows that are about to be hidden from viewers."""
        self._hide(positions[self._rows.summed[positions]])

    def _hide(self, summed: np.ndarray) -> None:
        visible = summed[self._rows.visible[summed]]
        self._visible_sum -= row_hash.sum_hashes(self._rows.hash[visible])

    def show_all(self) -> None:
        """Make all rows visible."""
        self.hash_pending()
        self._visible_sum = self._sum

    def hash_pending(self) -> None:
        """Bring the sums up to date."""
        if not self._pending:
            return
        rows = self._rows
        # together: hashing 500 rows one by one would block the event loop for half a second
        new = np.concatenate(self._pending)
        self._pending = []
        new = new[rows.alive[new] & ~rows.summed[new]]
        unhashed = new[~rows.hashed[new]]
        if len(unhashed):
            batches = rows.rows_at(unhashed).to_batches()
            rows.hash[unhashed] = np.concatenate([row_hash.hash_rows(batch) for batch in batches])
            rows.hashed[unhashed] = True
        rows.summed[new] = True
        self._sum += row_hash.sum_hashes(rows.hash[new])
        self._visible_sum += row_hash.sum_hashes(rows.hash[new[rows.visible[new]]])

    @property
    def full(self) -> str:
        """The hash of all rows, 16 hex digits."""
        self.hash_pending()
        return row_hash.to_hex(self._sum)

    @property
    def visible(self) -> str:
        """The hash of the rows that viewers see, 16 hex digits."""
        self.hash_pending()
        return row_hash.to_hex(self._visible_sum)
