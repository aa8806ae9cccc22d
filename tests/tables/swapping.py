"""A program that swaps generations while a viewer is connected, and prints its memory after each.

    python swapping.py SWAPS [keep]    `keep` holds on to every generation, as a leak would

It runs in its own process, so that its memory does not include other tests.
"""

import json
import os
import subprocess
import sys

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.catalog import Catalog
from rig import protocol
from tables.live_server import LIMIT_S, run_server
from tables.samples import DECODER, final, live

ROWS = 100_000
_RUN = 10_000  # chunk size of the follower


def rss() -> int:
    """Resident bytes of this process."""
    result = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True
    )
    return int(result.stdout) * 1024


def _record_pair(change: ChangelogRecord) -> tuple[bytes, bytes]:
    return change.key(), change.value()


def main(swaps: int, *, keep: bool) -> None:
    """Swap, and print one JSON line per swap."""
    records = [_record_pair(final(number, f"name {number}")) for number in range(ROWS)]
    kept: list[object] = []
    with run_server() as server, server.viewer("final_ui") as viewer:
        for generation in range(1, swaps + 1):
            server.follow(live(generation - 1, next_one=generation))
            for start in range(0, ROWS, _RUN):
                batch = records[start : start + _RUN]
                chunk = DECODER.decode_chunk(generation, start + len(batch), batch)
                server.run_on_loop(lambda catalog, chunk=chunk: catalog.apply(chunk))  # type: ignore[misc]
            server.follow(live(generation, ready_at=ROWS))
            if keep:
                server.run_on_loop(lambda catalog: kept.append(catalog._served))
            served = 0
            while served != generation:
                data = viewer.connection.recv(timeout=LIMIT_S)
                assert isinstance(data, bytes)
                header, parts = protocol.parse_frame(data)
                served = header["generation"] if parts else served
            server.run_on_loop(_check)
            print(json.dumps({"generation": generation, "rss": rss()}), flush=True)


def _check(catalog: Catalog) -> None:
    assert len(catalog.store("final_ui")) == ROWS
    assert len(catalog._generations) == 1


if __name__ == "__main__":
    main(int(sys.argv[1]), keep="keep" in sys.argv[2:])
