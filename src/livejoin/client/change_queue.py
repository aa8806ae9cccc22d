"""What one iterator has not taken yet. One that falls behind gets the whole table instead."""

from collections import deque
from dataclasses import replace

from livejoin.client.protocol import Change, Session

_WAITING_BYTES = 64 << 20


class Feed:
    """The changes of one table for one reader, who starts with all rows."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._waiting: deque[Change] = deque()
        self._size = 0
        self._afresh = True
        self._generation: int | None = None

    def offer(self, change: Change) -> None:
        """Something changed."""
        if change.table != self._table or self._afresh:
            return
        if change.kind in ("snapshot", "cutover"):
            self._drop()  # it holds all that waits
        self._waiting.append(change)
        self._size += change.rows.nbytes
        if self._size > _WAITING_BYTES and len(self._waiting) > 1:
            self._drop()
            self._afresh = True

    def take(self, session: Session) -> Change | None:
        """The next change, or None if there is none yet."""
        change = session.whole(self._table) if self._afresh else self._next()
        if change is None:
            return None
        if change.kind == "snapshot" and "_ts" in change.rows.column_names:
            # whoever was behind must learn of a cutover all the same
            moved = self._generation not in (None, change.generation)
            change = replace(change, kind="cutover") if moved else change
        self._afresh = False
        self._generation = change.generation
        return change

    def _next(self) -> Change | None:
        if not self._waiting:
            return None
        change = self._waiting.popleft()
        self._size -= change.rows.nbytes
        return change

    def _drop(self) -> None:
        self._waiting.clear()
        self._size = 0
