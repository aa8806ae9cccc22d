"""A program that serves large tables, and does what it is told on standard input, line by line.

    python crowd.py ROWS

    swap       show another generation, whose rows differ
    change     change some rows
    beat       print the memory

Each line is answered by one of JSON: the port, the generation and seq, and the resident bytes, now
and at most. A process of its own: those who watch are not in the figures.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import RunningServer, run_server
from tables.samples import live

TABLES = ("users_ui", "accounts_ui", "final_ui")
_RUN = 10_000  # as many as the follower takes at once
_CHANGED = 100
_FIRST = 10_000_000  # all numbers are equally long


def row(table: str, number: int, generation: int, version: int = 0) -> ChangelogRecord:
    """A row as large as they are: 100 bytes or so."""
    cells: dict[str, object] = {"userId": f"u{number}"}
    if table != "accounts_ui":
        name = f"Name {number}, generation {generation}, version {version}"
        cells |= {"name": name, "email": f"{number}@example.org", "age": 30}
    if table != "users_ui":
        cells |= {"accountType": "checking", "balance": version / 4}
    return ChangelogRecord(table, f"0-{number}", cells, 1_700_000_000_000, (version, 0, 0))


def pairs(table: str, numbers: range, generation: int) -> list[tuple[bytes, bytes]]:
    """Rows as records; a tenth of the time of one by one."""
    one = row(table, _FIRST, generation)
    key, value, old = one.key(), one.value(), b"%d" % _FIRST
    new = [b"%d" % (_FIRST + number) for number in numbers]
    return [(key.replace(old, text), value.replace(old, text)) for text in new]


def memory() -> dict[str, int]:
    """Resident bytes of this process."""
    status = Path("/proc/self/status").read_text()
    return {
        name: int(status.partition(f"{field}:")[2].split()[0]) << 10
        for name, field in (("rss", "VmRSS"), ("most", "VmHWM"))
    }


class Crowd:
    """The tables that are watched."""

    def __init__(self, serving: RunningServer, rows: int) -> None:
        self._serving = serving
        self._rows = rows
        self.generation = 0
        self.seq = 0

    def swap(self) -> None:
        """Build another generation and show it; the one before goes."""
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
        """Change the same rows of all tables once more."""
        for table in TABLES:
            self.seq += _CHANGED
            numbers = range(_FIRST, _FIRST + _CHANGED)
            changed = [row(table, number, self.generation, self.seq) for number in numbers]
            self._apply(self.generation, self.seq, [(one.key(), one.value()) for one in changed])

    def beat(self) -> None:
        """Nothing but tell."""

    def _apply(self, generation: int, end: int, some: list[tuple[bytes, bytes]]) -> None:
        chunk = decode.decode_chunk(generation, end, some)
        self._serving.run_on_loop(lambda host: host.apply(chunk))


def main(rows: int) -> None:
    """Serve until standard input ends."""
    with run_server(Catalog(logs_kept=100, rejects_kept=100)) as serving:
        crowd = Crowd(serving, rows)
        crowd.swap()
        told: dict[str, Callable[[], None]]
        told = {"swap": crowd.swap, "change": crowd.change, "beat": crowd.beat}
        place = {"port": serving.port}
        while True:
            place |= {"generation": crowd.generation, "seq": crowd.seq}
            print(json.dumps(place | memory()), flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            told[line.strip()]()


if __name__ == "__main__":
    main(int(sys.argv[1]))
