"""Latency from produce to a WebSocket viewer, over all samples, at a steady rate.

A sample is the time from handing a record to the producer until a viewer has its own row, which
arrives after the `final_ui` rows that it changed.
"""

import argparse
import asyncio
import io
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import websockets

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker
from rig import protocol
from rig.running import Running, running

TOPICS = {"users": "bench.users", "accounts": "bench.accounts"}
USERS = 1000
OUT = Path(__file__).parent / "out" / "latency.json"


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=20, help="seconds before samples count")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        broker.embedded_broker(Path(folder) / "broker") as kafka,
    ):
        for topic in TOPICS.values():
            kafka.create_topic(topic)
        producer = kafka.producer()
        for number in range(USERS):
            producer.produce(TOPICS["users"], json.dumps({"userId": f"u{number}", "name": "n"}))
        producer.flush(60)
        started = time.monotonic()
        with running(kafka, Path(folder) / "run", name="bench", topics=TOPICS) as live:
            live.wait_live()
            start_s = time.monotonic() - started
            samples = asyncio.run(
                _measure(kafka, live, options.rate, options.warm_up, options.seconds)
            )
    _report(samples, options.rate, options.seconds, start_s)


async def _measure(
    kafka: Kafka, live: Running, rate: int, warm_up: int, seconds: int
) -> list[float]:
    sent: dict[int, float] = {}
    took: list[float] = []
    count, skip = rate * (warm_up + seconds), rate * warm_up
    address = live.url.replace("http", "ws") + "api/v1/live"
    protocols = [websockets.Subprotocol("livejoin.v1")]
    async with websockets.connect(address, subprotocols=protocols, max_size=None) as socket:
        await socket.send(json.dumps({"subscribe": ["accounts_ui", "final_ui"]}))
        await socket.recv()
        producing = asyncio.create_task(asyncio.to_thread(_produce, kafka, rate, count, sent))
        async with asyncio.timeout(warm_up + seconds + 120):
            while len(took) < count:
                data = await socket.recv()
                now = time.perf_counter()
                assert isinstance(data, bytes)
                for part in protocol.parse_frame(data)[1]:
                    if part.table == "accounts_ui" and part.kind == "upsert":
                        numbers = pa.ipc.open_stream(part.payload).read_all().column("balance")
                        took += [now - sent[int(number)] for number in numbers.to_pylist()]
        await producing
    assert len(took) == count
    return took[skip:]


def _produce(kafka: Kafka, rate: int, count: int, sent: dict[int, float]) -> None:
    producer = kafka.producer()
    started = time.perf_counter()
    for number in range(count):
        if (wait := started + number / rate - time.perf_counter()) > 0:
            time.sleep(wait)  # the rate of the load
        record = json.dumps({"userId": f"u{number % USERS}", "balance": number})
        sent[number] = time.perf_counter()
        producer.produce(TOPICS["accounts"], record)
        producer.poll(0)
    producer.flush(60)


def _report(samples: list[float], rate: int, seconds: int, start_s: float) -> None:
    samples.sort()
    figures: dict[str, float] = {
        f"p{share}": samples[math.ceil(len(samples) * share / 100) - 1] * 1000
        for share in (50, 90, 99, 99.9)
    }
    figures["worst"] = samples[-1] * 1000
    out = io.StringIO()
    print(f"\n{len(samples)} samples, {rate} messages/s for {seconds} s", file=out)
    print("  ".join(f"{name} {value:.1f} ms" for name, value in figures.items()), file=out)
    print(f"start of livejoin to live: {start_s:.1f} s", file=out)
    print(out.getvalue())
    OUT.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "samples": len(samples),
        "rate": rate,
        "seconds": seconds,
        "start_s": start_s,
        "ms": figures,
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
