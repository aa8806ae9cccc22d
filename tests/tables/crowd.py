"""A server of large tables that takes commands on standard input, one per line.

    python crowd.py ROWS

    swap       serve another generation with different rows
    change     change some rows
    beat       report memory only

It answers each line with a line of JSON: the port, generation and seq, and the resident bytes,
current and peak. It runs in its own process, so that its memory does not include the viewers.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import RunningServer, run_server
from tables.samples import DECODER, live

TABLES = ("users_ui", "accounts_ui", "final_ui")
_RUN = 10_000  # chunk size of the follower
_CHANGED = 100
_FIRST = 10_000_000  # all numbers have the same length


def row(table: str, number: int, generation: int, version: int = 0) -> ChangelogRecord:
    """Return a row of a typical size, about 100 bytes."""
    cells: dict[str, object] = {"userId": f"u{number}"}
    if table != "accounts_ui":
        name = f"Name {number}, generation {generation}, version {version}"
        cells |= {"name": name, "email": f"{number}@example.org", "age": 30}
    if table != "users_ui":
        cells |= {"accountType": "checking", "balance": version / 4}
    return ChangelogRecord(table, f"0-{number}", cells, 1_700_000_000_000, (version, 0, 0))


def pairs(table: str, numbers: range, generation: int) -> list[tuple[bytes, bytes]]:
    """Return rows as records, ten times faster than one by one."""
    sample = row(table, _FIRST, generation)
    key, value, old = sample.key(), sample.value(), b"%d" % _FIRST
    new = [b"%d" % (_FIRST + number) for number in numbers]
    return [(key.replace(old, text), value.replace(old, text)) for text in new]


def memory() -> dict[str, int]:
    """Resident bytes of this process."""
    status = Path("/proc/self/status").read_text()
    return {
        name: int(status.partition(f"{field}:")[2].split()[0]) << 10
        for name, field in (("rss", "VmRSS"), ("most", "VmHWM"))
    }


class Commands:
    """Commands on the served tables."""

    def __init__(self, server: RunningServer, rows: int) -> None:
        self._serving = server
        self._rows = rows
        self.generation = 0
        self.seq = 0

    def swap(self) -> None:
        """Build another generation and serve it instead of the current one."""
        number = self.generation + 1
        self._serving.follow(live(self.generation, next_one=number))
        seq = 0
        for table in TABLES:
            for start in range(0, self._rows, _RUN):
                rows = range(start, min(start + _RUN, self._rows))
                seq += len(rows)
                self._apply(number, seq, pairs(table, rows, number))
        self._serving.follow(live(number, ready_at=seq))
        self.generation, self.seq = number, seq

    def change(self) -> None:
        """Change the same rows of all tables again."""
        for table in TABLES:
            self.seq += _CHANGED
            numbers = range(_FIRST, _FIRST + _CHANGED)
            changed = [row(table, number, self.generation, self.seq) for number in numbers]
            self._apply(
                self.generation, self.seq, [(record.key(), record.value()) for record in changed]
            )

    def beat(self) -> None:
        """Report memory only."""

    def _apply(self, generation: int, end: int, records: list[tuple[bytes, bytes]]) -> None:
        chunk = DECODER.decode_chunk(generation, end, records)
        self._serving.run_on_loop(lambda catalog: catalog.apply(chunk))


def main(rows: int) -> None:
    """Serve until standard input ends."""
    with run_server(Catalog(logs_kept=100, rejects_kept=100)) as server:
        commands = Commands(server, rows)
        commands.swap()
        by_name: dict[str, Callable[[], None]]
        by_name = {"swap": commands.swap, "change": commands.change, "beat": commands.beat}
        position = {"port": server.port}
        while True:
            position |= {"generation": commands.generation, "seq": commands.seq}
            print(json.dumps(position | memory()), flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            by_name[line.strip()]()


if __name__ == "__main__":
    main(int(sys.argv[1]))
