"""Changes of one table that wait for a `changes()` iterator, and what happens to a slow one."""

from collections import deque
from dataclasses import replace

from livejoin.client.protocol import Change, ClientSession

_MAX_PENDING_BYTES = 64 << 20  # of one iterator


class ChangeQueue:
    """Changes of one table for one reader, starting with a snapshot.

    A reader that falls behind gets a snapshot instead.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._pending: deque[Change] = deque()
        self._pending_bytes = 0
        self._needs_snapshot = True
        self._generation: int | None = None

    def put(self, change: Change) -> None:
        """Add a change, unless it belongs to another table or a snapshot is due anyway."""
        if change.table != self._table or self._needs_snapshot:
            return
        if change.kind in ("snapshot", "cutover", "gone"):
            self._clear()  # it includes all pending changes
        self._pending.append(change)
        self._pending_bytes += change.rows.nbytes
        if self._pending_bytes > _MAX_PENDING_BYTES and len(self._pending) > 1:
            self._clear()
            self._needs_snapshot = True

    def get(self, session: ClientSession) -> Change | None:
        """Return the next change, or None if there is none yet."""
        change = session.snapshot(self._table) if self._needs_snapshot else self._pop()
        if change is None:
            return None
        if change.kind == "snapshot" and "_ts" in change.rows.column_names:
            # a reader that fell behind must still see the cutover
            switched = self._generation not in (None, change.generation)
            change = replace(change, kind="cutover") if switched else change
        self._needs_snapshot = False
        self._generation = change.generation
        return change

    def _pop(self) -> Change | None:
        if not self._pending:
            return None
        change = self._pending.popleft()
        self._pending_bytes -= change.rows.nbytes
        return change

    def _clear(self) -> None:
        self._pending.clear()
        self._pending_bytes = 0
