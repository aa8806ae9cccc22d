"""A program that swaps again and again under a viewer, and prints its memory after each swap.

    python swapping.py SWAPS [keep]    `keep` holds on to every generation, as a leak would

A process of its own: what other tests have used is not in the figures.
"""

import json
import os
import subprocess
import sys

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.catalog import Catalog
from rig import protocol
from tables.live_server import LIMIT_S, run_server
from tables.samples import final, live

ROWS = 100_000
_RUN = 10_000  # as many as the follower takes at once


def rss() -> int:
    """Resident bytes of this process."""
    said = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return int(said.stdout) * 1024


def _pair(change: ChangelogRecord) -> tuple[bytes, bytes]:
    return change.key(), change.value()


def main(swaps: int, *, keep: bool) -> None:
    """Swap, and print one JSON line per swap."""
    records = [_pair(final(number, f"name {number}")) for number in range(ROWS)]
    kept: list[object] = []
    with run_server() as serving, serving.viewer("final_ui") as viewer:
        for generation in range(1, swaps + 1):
            serving.follow(live(generation - 1, next_one=generation))
            for start in range(0, ROWS, _RUN):
                some = records[start : start + _RUN]
                chunk = decode.decode_chunk(generation, start + len(some), some)
                serving.run_on_loop(lambda host, chunk=chunk: host.apply(chunk))  # type: ignore[misc]
            serving.follow(live(generation, ready_at=ROWS))
            if keep:
                serving.run_on_loop(lambda host: kept.append(host._served))
            shown = 0
            while shown != generation:
                data = viewer.connection.recv(timeout=LIMIT_S)
                assert isinstance(data, bytes)
                header, parts = protocol.parse_frame(data)
                shown = header["generation"] if parts else shown
            serving.run_on_loop(_check)
            print(json.dumps({"generation": generation, "rss": rss()}), flush=True)


def _check(host: Catalog) -> None:
    assert len(host.store("final_ui")) == ROWS
    assert len(host._generations) == 1


if __name__ == "__main__":
    main(int(sys.argv[1]), keep="keep" in sys.argv[2:])
