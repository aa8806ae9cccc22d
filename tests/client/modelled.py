"""A model of the table server's side of the protocol, without a socket."""

import json
from typing import Any

import pyarrow as pa

from livejoin import row_hash
from livejoin.tables.live import frames

STATUS, FINAL = "orchestrator_status", "final_ui"
SCHEMAS = {
    FINAL: pa.schema(
        [("name", pa.string()), ("_id", pa.string()), ("_ts", pa.timestamp("ms", "UTC"))]
    ),
    STATUS: pa.schema([("state", pa.string()), ("_id", pa.string())]),
}
Rows = dict[str, dict[str, Any]]


def row(row_id: str, name: str | None) -> dict[str, Any]:
    return {"name": name, "_id": row_id, "_ts": 1000}


def arrow(table: str, rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), SCHEMAS[table])


def by_id(rows: pa.Table) -> Rows:
    plain = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns]
    return {
        plain_row["_id"]: plain_row for plain_row in pa.table(plain, rows.column_names).to_pylist()
    }


def table_hash(rows: pa.Table) -> str:
    total = sum(int(n) for batch in rows.to_batches() for n in row_hash.hash_rows(batch))
    return f"{total % (1 << 64):016x}"


class ServerModel:
    """The live rows, their history, and one client's subscription."""

    def __init__(self, *, resumes: bool = True) -> None:
        self.resumes = resumes
        self.generation: int | None = 1
        self.seq = 0
        self.rows: dict[str, Rows] = {FINAL: {}, STATUS: {"0": {"state": "live", "_id": "0"}}}
        self.history: dict[int, list[tuple[str, str | None]]] = {1: []}
        self.tables: list[str] = []
        self.total: int | None = None
        self.client_position: tuple[int, int] | None = None  # position of the client

    def answer(self, text: str) -> bytes:
        """Return the frame that answers a subscription."""
        message = json.loads(text)
        self.tables = message["subscribe"]
        resume = message.get("resume") if self.resumes else None
        self.client_position = (resume["generation"], resume["seq"]) if resume else None
        return self._catch_up()

    def _catch_up(self) -> bytes:
        """Return the frame that brings the client up to date: snapshots, changes, or no data."""
        snapshots = [self._snapshot_part(name) for name in self.tables]
        if self.client_position is None:
            return self.frame("data", snapshots)
        generation, seq = self.client_position
        if self.generation is None:
            return self.frame("data", [part for part in snapshots if part.table != FINAL])
        if self.generation != generation:
            return self.frame("cutover", snapshots)
        changes = dict(self.history[generation][seq:])
        upserted = {i: row(i, name) for i, name in changes.items() if name is not None}
        removed = [row_id for row_id, name in changes.items() if name is None]
        parts = [self._snapshot_part(STATUS)]
        if upserted:
            parts.append(frames.encode_rows(FINAL, "upsert", arrow(FINAL, upserted)))
        if removed:
            parts.append(frames.encode_removal(FINAL, removed))
        return self.frame("data", parts, resumed=True)

    def go_live(self, *changes: tuple[str, str | None]) -> bytes:
        """Make the newest generation live again, with further changes."""
        self.generation = max(self.history)
        history = self.history[self.generation]
        history += changes
        self.seq = len(history)
        self.rows[FINAL] = {
            i: row(i, name) for i, name in dict(history).items() if name is not None
        }
        return self._catch_up()

    def put(self, row_id: str, name: str | None) -> bytes:
        """Change a row, or remove it if the name is None."""
        assert self.generation is not None
        self.seq += 1
        self.history[self.generation].append((row_id, name))
        if name is None:
            self.rows[FINAL].pop(row_id, None)
            return self.frame("data", [frames.encode_removal(FINAL, [row_id])])
        self.rows[FINAL][row_id] = row(row_id, name)
        part = frames.encode_rows(FINAL, "upsert", arrow(FINAL, {row_id: row(row_id, name)}))
        return self.frame("data", [part])

    def cut_over(self, names: list[str]) -> bytes:
        self.generation = max(self.history) + 1
        self.seq = len(names)
        self.history[self.generation] = [(str(n), name) for n, name in enumerate(names)]
        self.rows[FINAL] = {str(n): row(str(n), name) for n, name in enumerate(names)}
        return self.frame("cutover", [self._snapshot_part(FINAL)])

    def forget(self) -> bytes:
        """Lose everything, like a server that just started."""
        self.generation, self.seq, self.rows[FINAL] = None, 0, {}
        return self.frame("cutover", [self._snapshot_part(FINAL)])

    def heartbeat(self, **more: Any) -> bytes:
        arrow_tables = {name: arrow(name, rows) for name, rows in self.rows.items()}
        tables = {
            n: {"rows": len(rows), "hash": table_hash(rows)} for n, rows in arrow_tables.items()
        }
        header = {"newest": 1000, "stale": None, "tables": tables}
        return self.frame("heartbeat", [], **(header | more))

    def frame(self, kind: str, parts: list[frames.EncodedPart], **more: Any) -> bytes:
        limited = {} if self.total is None else {"limited": {FINAL: {"total": self.total}}}
        header = {"type": kind, "generation": self.generation, "seq": self.seq, "at": 1}
        if self.resumes and self.generation is not None:
            self.client_position = (self.generation, self.seq)
        return frames.encode_frame(
            {**header, **limited, **more}, [part for part in parts if part.table in self.tables]
        )

    def _snapshot_part(self, table: str) -> frames.EncodedPart:
        return frames.encode_rows(table, "snapshot", arrow(table, self.rows[table]))
