"""Speed of the table server: changes to viewers, many viewers, cutovers, reading a changelog.

With a real broker and a real `livejoin serve`. Ledger and changelog are written by the benchmark,
so that only the table server is measured.
"""

import argparse
import asyncio
import contextlib
import hashlib
import math
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from websockets.asyncio.client import ClientConnection

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench import parts
from bench.parts import Figures

from livejoin.runtime import broker
from rig import polling
from rig.ledgered import DATA, Audience, FakeLeader, row
from rig.protocol import header, payloads
from rig.running import memory_kib, until

NAME = "bench"

Sums = dict[str, tuple[int, str]]  # by table: rows and hash


def main() -> None:
    """Run the parts, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of latency and viewers")
    parser.add_argument("--viewers", type=int, default=1000, help="in the part of that name")
    parser.add_argument("--records", type=int, default=1_000_000, help="in the part ingest")
    parts.run(parser, PARTS, _measured, "tables")


def _measured(part: str, options: argparse.Namespace) -> Figures:
    with (
        tempfile.TemporaryDirectory() as folder,
        broker.embedded_broker(Path(folder) / "kafka") as kafka,
    ):
        return PARTS[part](options, FakeLeader(kafka, Path(folder), NAME))


def _steady(  # noqa: PLR0913, PLR0917 - what to change, how fast, and the viewers
    leader: FakeLeader, count: int, rate: float, audience: Audience, viewers: int, row_from: int = 0
) -> tuple[list[float], float]:
    """Ms from handing each change to a producer until each viewer has it; seconds to join."""
    first = leader.ends[1]
    sent: list[float] = []
    ready, stop = threading.Event(), threading.Event()
    total = int(count)

    def send() -> None:
        ready.wait()
        started = time.monotonic()
        for number in range(total):
            if stop.wait(max(0.0, started + number / rate - time.monotonic())):
                return
            sent.append(time.monotonic())
            leader.write(1, row("final_ui", row_from + number % 1000, "changed", first + number))
            leader.flush()

    async def scenario() -> float:
        started = time.monotonic()
        await audience.join(viewers, ("final_ui",))
        joined = time.monotonic() - started
        ready.set()
        await audience.watch(first + total, total / rate + 120)
        await audience.leave()
        return joined

    thread = threading.Thread(target=send)
    thread.start()
    try:
        joined = asyncio.run(scenario())
    finally:
        stop.set()
        ready.set()
        thread.join()
    return sorted(seconds * 1000 for seconds in audience.delays_s(first, sent)), joined


def _shares(took: list[float], *shares: float) -> Figures:
    return {f"p{s:g}, ms": took[math.ceil(len(took) * s / 100) - 1] for s in shares} | {
        "worst, ms": took[-1]
    }


def latency(options: argparse.Namespace, leader: FakeLeader) -> Figures:
    """From the changelog to 10 viewers, at 500 changes/s."""
    leader.set_live(leader.write_generation(1, 10_000))
    with leader.server() as server:
        took, _ = _steady(leader, int(options.seconds * 500), 500, Audience(server), 10)
    return {"samples": len(took)} | _shares(took, 50, 90, 99, 99.9)


def viewers(options: argparse.Namespace, leader: FakeLeader) -> Figures:
    """Many viewers of a table of 10,000 rows, at 10 changes/s."""
    leader.set_live(leader.write_generation(1, 10_000))
    with leader.server() as server:
        before = memory_kib(server.pid)
        audience = Audience(server)
        memory: list[float] = []
        stop = threading.Event()

        def weigh() -> None:
            while not stop.wait(1):
                memory.append(memory_kib(server.pid))

        thread = threading.Thread(target=weigh)
        thread.start()
        took, joined = _steady(leader, int(options.seconds * 10), 10, audience, options.viewers)
        stop.set()
        thread.join()
    figures: Figures = {"viewers": options.viewers, "all have their snapshot after, s": joined}
    figures |= _shares(took, 50, 99)
    steady = memory[len(memory) // 2 :]
    return figures | {
        "KiB of memory per viewer, at most": (max(memory) - before) / options.viewers,
        "KiB of memory per viewer, later": (max(steady) - before) / options.viewers,
    }


def readers(options: argparse.Namespace, leader: FakeLeader) -> Figures:
    """Live frames of a table of 1,000,000 rows, alone and while ten clients read it over HTTP."""
    count, rate = options.records, 200
    leader.set_live(leader.write_generation(1, count, ("final_ui",)))
    figures: Figures = {}
    with leader.server(viewer_rows=5000) as server:
        for beside in ("alone", "beside 10 readers"):
            with contextlib.ExitStack() as stack:
                answers: list[polling.Response] = []
                if beside != "alone":
                    answers = stack.enter_context(polling.polling(server.port, "final_ui", count))
                changes = int(options.seconds * rate)
                took, _ = _steady(leader, changes, rate, Audience(server), 5, count - 1000)
                figures |= {f"{beside}: {p}": ms for p, ms in _shares(took, 50, 99).items()}
                if answers:
                    figures["answers per second"] = len(answers) / options.seconds
                    took_s = [answer.took_s for answer in answers]
                    figures["an answer takes, s"] = sum(took_s) / len(took_s)
    ratio = figures["beside 10 readers: p99, ms"] / figures["alone: p99, ms"]
    return {**figures, "p99 beside readers / alone": ratio}


def cutover(_asked: argparse.Namespace, leader: FakeLeader) -> Figures:
    """A cutover of 100,000 rows for 20 viewers, while a client polls a small response."""
    old, new = leader.write_generation(1, 100_000), leader.write_generation(2, 100_000)
    leader.set_live(old, standby=new)
    with leader.server() as server, _asking(server.url) as waits:

        async def scenario() -> tuple[float, float]:
            audience = Audience(server)
            await audience.join(20, DATA)
            await asyncio.sleep(2)
            started = time.monotonic()
            await asyncio.to_thread(leader.set_live, new, old)
            known: dict[bytes, asyncio.Future[Sums]] = {}
            await asyncio.gather(*(_checked(socket, known) for socket in audience.sockets))
            ended = time.monotonic()
            await audience.leave()
            return started, ended

        started, ended = asyncio.run(scenario())
    return {
        "all 20 have it and checked it after, s": ended - started,
        "longest wait of another request, ms": max(w for at, w in waits if started <= at < ended),
        "the same before the cutover, ms": max(w for at, w in waits if started - 1 <= at < started),
    }


# In its own process, so that only the server makes it wait.
_ASKS = """
import http.client, sys, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
while True:
    began = time.monotonic()
    connection.request("GET", "/livez")
    connection.getresponse().read()
    print(began, (time.monotonic() - began) * 1000, flush=True)
    time.sleep(0.002)
"""


def _asking(url: str) -> contextlib.AbstractContextManager[list[tuple[float, float]]]:
    """Poll a small response; yields time and duration in ms of each request."""

    def read(line: str) -> tuple[float, float]:
        at, took = line.split()
        return float(at), float(took)

    port = url.rstrip("/").rpartition(":")[2]
    return polling.running_process([sys.executable, "-c", _ASKS, port], read)


async def _checked(socket: ClientConnection, known: dict[bytes, asyncio.Future[Sums]]) -> None:
    """Wait for the cutover and the next heartbeat, and check its hashes.

    In reality each viewer has its own machine, so equal frames are hashed once here.
    """
    frame = digest = b""
    while True:
        found = await socket.recv()
        assert isinstance(found, bytes)
        frame_header = header(found)
        if frame_header["type"] == "cutover":
            frame = found
            rows = b"".join(payloads(found))  # the header before them has the time
            digest = hashlib.blake2b(rows, digest_size=16).digest()
            if digest not in known:
                known[digest] = asyncio.ensure_future(asyncio.to_thread(_sums, frame))
        elif frame_header["type"] == "heartbeat" and frame:
            sums = await asyncio.shield(known[digest])
            for table, (count, text) in sums.items():
                assert frame_header["tables"][table] == {"rows": count, "hash": text}
            return


def _sums(frame: bytes) -> Sums:
    from livejoin import row_hash  # noqa: PLC0415 - only this part needs it

    found = {}
    for part, payload in zip(header(frame)["parts"], payloads(frame), strict=True):
        table = pa.ipc.open_stream(payload).read_all()
        total = sum(row_hash.sum_hashes(row_hash.hash_rows(batch)) for batch in table.to_batches())
        found[part["table"]] = (table.num_rows, row_hash.to_hex(total))
    return found


def ingest(options: argparse.Namespace, leader: FakeLeader) -> Figures:
    """A server that starts with a full changelog: seconds until it serves all of it."""
    each = options.records // len(DATA)
    leader.set_live(leader.write_generation(1, each))
    records = leader.ends[1]
    started = time.monotonic()
    with leader.server() as server:
        until(lambda: server.request("api/v1/tables")["seq"] >= records, "all is read", 600)
        took = time.monotonic() - started
        used = _cpu_s(server.pid)
        listed = server.request("api/v1/tables")["tables"]
        assert {t["name"]: t["rows"] for t in listed if t["name"] in DATA} == dict.fromkeys(
            DATA, each
        )
        memory = memory_kib(server.pid) / 1024
    return {
        "records": records,
        "from its start until all are served, s": took,
        "CPU of the server, start included, s": used,
        "records per second of CPU": records / used,
        "memory, MiB": memory,
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


PARTS: dict[str, Callable[[argparse.Namespace, FakeLeader], Figures]] = {
    "latency": latency,
    "viewers": viewers,
    "readers": readers,
    "cutover": cutover,
    "ingest": ingest,
}


if __name__ == "__main__":
    main()
