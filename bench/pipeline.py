"""Speed of the pipeline: latency, new generations, catch-up, state, and replay after a crash.

All parts except `generation` and `state` run the real `livejoin run`, so that the table server uses
its share of the machine.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench import new_generation, parts
from bench.parts import Figures

from livejoin.config.sections import SparkSettings
from livejoin.core import changelog, spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import poll_batch
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import broker, processes
from rig.running import Running, descendants, is_java, memory_kib, running, until

NAME = "bench"
TOPICS = {"users": "bench.users", "accounts": "bench.accounts"}
USERS = 1000  # users with accounts, in the parts with a steady rate
PARTITIONS = 2
ROLES = ("the broker", "Spark", "livejoin")
COUNTING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
SMALLER = 10  # the state is measured with fewer records than the catch-up, by this factor


def main() -> None:
    """Run the parts, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of latency")
    parser.add_argument("--warm-up", type=float, default=1, help="minutes before samples count")
    parser.add_argument("--rate", type=int, default=500, help="accounts/s: latency and crash")
    parser.add_argument("--records", type=int, default=1_000_000, help="per side: catch-up")
    parser.add_argument(
        "--history-records",
        type=int,
        default=SparkSettings().history_records,
        help="catch-up: from so many on by a batch job; 0: by the stream",
    )
    parser.add_argument(
        "--shuffle-partitions", type=int, default=SparkSettings().shuffle_partitions
    )
    parser.add_argument("--once", action="store_true", help="catch-up: in a cold JVM only")
    parser.add_argument(
        "--batch-s", type=int, default=SparkSettings().batch_s, help="latency and crash"
    )
    parts.run(parser, PARTS, _measured, "pipeline")


def _measured(part: str, options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        return PARTS[part](options, Path(folder))


class Mark(NamedTuple):
    """A record of the steady load: when it was sent, and when its mark was read."""

    sent: float
    read: float


class Load:
    """Accounts at a steady rate; a plain consumer of the changelog reads their marks."""

    def __init__(self, kafka: Kafka, rate: int) -> None:
        self._kafka = kafka
        self._rate = rate
        self._sent: list[float] = []  # by offset, since there is one partition and one producer
        self._stop = threading.Event()
        self.marks: list[Mark] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Send and consume in the background."""
        threads = [threading.Thread(target=work) for work in (self._send, self._watch)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _send(self) -> None:
        producer = self._kafka.producer()
        started = time.monotonic()
        for number in itertools.count():
            if self._stop.wait(max(0.0, started + number / self._rate - time.monotonic())):
                break
            record = json.dumps({"userId": f"u{number % USERS}", "balance": number})
            self._sent.append(time.monotonic())
            producer.produce(TOPICS["accounts"], record)
            producer.poll(0)
        producer.flush(60)

    def _watch(self) -> None:
        consumer = self._kafka.reader("bench")
        consumer.assign([TopicPartition(Names(NAME).changelog(1), 0, 0)])
        offsets_read = set()
        while not self._stop.is_set():
            found = poll_batch(consumer, 10_000, 0.1)
            now = time.monotonic()
            for record in found:
                mark = changelog.marked_position(record.key() or b"")
                if mark and mark.source == "accounts" and mark.offset not in offsets_read:
                    offsets_read.add(mark.offset)
                    self.marks.append(Mark(self._sent[mark.offset], now))
        consumer.close()


@contextmanager
def _loaded(options: argparse.Namespace, folder: Path) -> Iterator[tuple[Running, Load]]:
    """A live livejoin with a steady load."""
    with broker.embedded_broker(folder / "broker") as kafka:
        for topic in TOPICS.values():
            kafka.create_topic(topic)
        producer = kafka.producer()
        for number in range(USERS):
            producer.produce(TOPICS["users"], json.dumps({"userId": f"u{number}", "name": "n"}))
        producer.flush(60)
        spark = {"batch_s": options.batch_s}
        with running(kafka, folder / "run", name=NAME, topics=TOPICS, spark=spark) as live:
            live.wait_live()
            load = Load(kafka, options.rate)
            with load.at_work():
                yield live, load


def latency(options: argparse.Namespace, folder: Path) -> Figures:
    """Ms from handing a record to a producer until a consumer of the changelog has its mark."""
    with _loaded(options, folder) as (live, load):
        time.sleep(options.warm_up * 60)
        started, used = time.monotonic(), _cpu(live)
        time.sleep(options.minutes * 60)
        ended, used_then = time.monotonic(), _cpu(live)
        time.sleep(5)  # for the last marks
        ends = [at for at in _written(live, "commits/[0-9]*") if started < at < ended]
    marks = [mark for mark in load.marks if started <= mark.sent < ended]
    took = sorted((mark.read - mark.sent) * 1000 for mark in marks)
    figures: Figures = {"samples": len(took)}
    for share in (50, 90, 99, 99.9):
        figures[f"p{share}, ms"] = took[math.ceil(len(took) * share / 100) - 1]
    figures["worst, ms"] = took[-1]
    pauses = [_pause(load.marks, end) for end in ends]
    figures |= {f"pause at batch end {n}, ms": p * 1000 for n, p in enumerate(pauses, 1)}
    for role, seconds in used_then.items():
        figures[f"CPU of {role}, cores"] = (seconds - used[role]) / (ended - started)
    return figures


def _written(live: Running, pattern: str) -> list[float]:
    """Return when files of the checkpoint were written, on the monotonic clock."""
    files = (live.folder / "checkpoints" / "1").glob(pattern)
    return sorted(file.stat().st_mtime - time.time() + time.monotonic() for file in files)


def _pause(marks: list[Mark], end: float) -> float:
    """Return the longest time without a mark around the end of a batch."""
    near = [mark.read for mark in marks if abs(mark.read - end) < 10]
    return max(after - before for before, after in itertools.pairwise(near))


def _cpu(live: Running) -> dict[str, float]:
    """Seconds of CPU that each process has used."""
    spark = live.jvm()
    kafka = next(pid for pid in descendants(os.getpid()) if is_java(pid) and pid != spark)
    found = {}
    for role, pid in zip(ROLES, (kafka, spark, live.pid), strict=True):
        output = subprocess.run(
            ["ps", "-o", "cputimes=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        found[role] = float(output.stdout)
    return found


def crash(options: argparse.Namespace, folder: Path) -> Figures:
    """Seconds from killing Spark's JVM, just before a batch ends, until new rows arrive."""
    with _loaded(options, folder) as (live, load):
        (started,) = _written(live, "metadata")  # the start of the query, and so of its first batch
        time.sleep(started + options.batch_s - 5 - time.monotonic())
        replayed = len(load.marks) + USERS
        live.kill(live.jvm())
        killed = time.monotonic()
        until(lambda: load.marks[-1].sent > killed, "a row of a record sent after the crash")
        flows = load.marks[-1].read - killed
        until(lambda: time.monotonic() - load.marks[-1].sent < 1, "no backlog")
        return {
            "records to replay": replayed,
            "until new rows, s": flows,
            "until less than 1 s behind, s": time.monotonic() - killed,
        }


def generation(_asked: argparse.Namespace, _folder: Path) -> Figures:
    """Ms of the phases of a new generation in a warm session; medians."""
    took = new_generation.measure(builds=12, warm_up=6, rate=20)
    return {f"{phase}, ms": statistics.median(seconds) * 1000 for phase, seconds in took.items()}


def catch_up(options: argparse.Namespace, folder: Path) -> Figures:
    """Input records/s from the start of a catch-up until the table server has all tables."""
    count, figures = options.records, Figures()
    with broker.embedded_broker(folder / "broker") as kafka:
        _fill(kafka, count)
        spark = {
            "history_records": options.history_records,
            "shuffle_partitions": options.shuffle_partitions,
        }
        limits = {"standby_s": 0, "build_stall_s": 600, "max_rows": 2 * count, "spark": spark}
        with running(kafka, folder / "run", name=NAME, topics=TOPICS, **limits) as live:
            started, used = time.monotonic(), dict.fromkeys(ROLES, 0.0)
            runs = (("cold", 1), ("warm", 2))[: 1 if options.once else 2]
            for kind, number in runs:
                until(lambda: _holds(live, number, 2 * count), kind, 3600)  # noqa: B023
                took, used_then = time.monotonic() - started, _cpu(live)
                figures |= {f"{kind}, s": took, f"{kind}, input records/s": 2 * count / took}
                for role in ROLES[1:]:
                    figures[f"{kind}, CPU of {role}, s"] = used_then[role] - used[role]
                figures |= {
                    f"{kind}, peak memory of Spark, MiB": memory_kib(live.jvm(), "VmHWM") / 1024,
                    f"{kind}, peak memory of livejoin, MiB": memory_kib(live.pid, "VmHWM") / 1024,
                }
                if number < len(runs):
                    started, used = time.monotonic(), used_then
                    live.request("api/v1/control", {"start": "earliest"})
            figures["an account for an old user, s"] = _change_old_row(kafka, live, count)
    return figures


def _fill(kafka: Kafka, count: int) -> None:
    for topic in TOPICS.values():
        kafka.create_topic(topic, partitions=PARTITIONS)
    producer = kafka.producer(
        **{"linger.ms": 20, "batch.num.messages": 10_000, "queue.buffering.max.kbytes": 1 << 20}
    )
    for number in range(count):
        user = {"userId": f"u{number}", "name": f"Name {number}", "email": f"{number}@x.org"}
        _put(producer, "users", number, {**user, "age": number % 90})
        # each user once, in another order
        account = {"userId": f"u{number * 7919 % count}", "accountType": "checking"}
        _put(producer, "accounts", number, {**account, "balance": number / 4})
    assert producer.flush(120) == 0


def _put(producer: Any, source: str, number: int, record: dict[str, Any]) -> None:
    value = json.dumps(record)
    while True:
        try:
            producer.produce(TOPICS[source], value, partition=number % PARTITIONS)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _holds(live: Running, generation: int, records: int) -> bool:
    """Whether the tables show this generation with this number of input records."""
    assert live.exit_code is None, live.log.read_text()[-3000:]
    try:
        status = live.request("api/v1/status")
        return status.get("generation") == generation and live.records_read() >= records
    except AssertionError:  # it is starting
        return False


def _change_old_row(kafka: Kafka, live: Running, count: int) -> float:
    producer = kafka.producer()
    producer.list_topics(TOPICS["accounts"], timeout=10)  # connecting may take half a second
    started = time.monotonic()
    _put(producer, "accounts", 0, {"userId": "u7", "accountType": "new", "balance": 1})
    producer.flush(60)
    until(lambda: live.records_read() == 2 * count + 1, "the account is read", 600)
    took = time.monotonic() - started
    with urllib.request.urlopen(live.url + "api/v1/tables/final_ui?format=arrow") as answer:
        table = pa.ipc.open_stream(answer).read_all()
    assert len(table) == count
    row = table.filter(pc.field("userId") == "u7").to_pylist()
    assert [one["accountType"] for one in row] == ["new"]
    return took


def state(options: argparse.Namespace, folder: Path) -> Figures:
    """Bytes of a key: per write, half of which have one side only, and in the checkpoint."""
    count, figures = options.records // SMALLER, Figures()
    # keys are counted, to know when all are there
    settings = SparkSettings(batch_s=5, history_records=0, conf={COUNTING: "true"})
    with (
        broker.embedded_broker(folder / "broker") as kafka,
        processes.file_lock(folder / "lock", "folder") as lock,
        SparkDriver(settings, lock=lock, log=folder / "spark.log") as session,
    ):
        _fill(kafka, count)
        queries = Queries(
            session, Clusters.single(kafka), Names(NAME), str(folder / "checkpoints"), settings
        )
        pipeline = Pipeline(Clusters.single(kafka), Names(NAME), queries, new_generation.START)
        joins: tuple[spec.Join, ...] = ("left", "inner")
        for number, join in enumerate(joins, 1):
            choice = spec.DEFAULT.choice(TOPICS["users"], TOPICS["accounts"], join=join)
            asked_for = Generation(number, choice, time.time())
            pipeline.start(pipeline.prepare(asked_for))
            (query,) = session.spark().streams.active
            kept = until(lambda: _kept(query.lastProgress, count), "all keys are kept", 600)  # noqa: B023
            pipeline.stop(number)
            figures[f"{join}, bytes per write"] = (
                kept["rocksdbTotalBytesWritten"] / kept["rocksdbPutCount"]
            )
            written = (folder / "checkpoints" / str(number)).rglob("*")
            size = sum(file.stat().st_size for file in written if file.is_file())
            figures[f"{join}, bytes of the checkpoint per key"] = size / count
    return figures


def _kept(progress: Any, keys: int) -> Any:
    """The metrics of the state once it has this number of keys."""
    state = progress["stateOperators"][0] if progress else {"numRowsTotal": 0}
    return state["numRowsTotal"] == keys and state["customMetrics"]


PARTS = {
    "latency": latency,
    "generation": generation,
    "catch-up": catch_up,
    "state": state,
    "crash": crash,
}


if __name__ == "__main__":
    main()
