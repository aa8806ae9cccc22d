"""Samplers in the background: changelog topics, running queries, and reports of stale rows."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException

from livejoin.core.names import Names
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from rig.running import alive, descendants

_EVERY_S = 0.1


class Sampler:
    """Records the largest numbers of changelogs and queries at one time."""

    def __init__(self, kafka: Kafka, name: str, spark_ui: str = "") -> None:
        self._kafka, self._names, self._ui = kafka, Names(name), spark_ui
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=[self._sample_topics])]
        if spark_ui:
            self._threads.append(threading.Thread(target=self._loop, args=[self._sample_queries]))
        self.most_changelogs: set[int] = set()
        self.most_queries: set[str] = set()
        self.samples = {"topics": 0, "queries": 0}

    def _loop(self, sample: Callable[[], None]) -> None:
        while not self._stop.wait(_EVERY_S):
            sample()

    def _sample_topics(self) -> None:
        try:
            topics = self._kafka.topics()
        except (KafkaException, LivejoinError):
            return  # the broker is down, so no topics are created either
        prefix = self._names.changelog(0)[:-1]
        found = {topic for topic in topics if topic.startswith(prefix)}
        numbers = {number for topic in found if (number := self._names.generation_of(topic))}
        self.samples["topics"] += 1
        self.most_changelogs = max(self.most_changelogs, numbers, key=len)

    def _sample_queries(self) -> None:
        try:
            found = running_queries(self._ui)
        except OSError:
            return  # Spark's JVM is down, so no query is running
        self.samples["queries"] += 1
        self.most_queries = max(self.most_queries, found, key=len)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Staleness:
    """Records when the status reported stale rows."""

    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        self._status = status
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="staleness")
        self._reported_at: list[float] = []  # monotonic times
        self.samples = 0

    def _loop(self) -> None:
        while not self._stop.wait(_EVERY_S):
            started_at, status = time.monotonic(), self._status()
            # an unreachable server is visible to viewers as well
            if status["stale"] or not status["state"]:
                self._reported_at.append(started_at)
            self.samples += 1

    def reported_after(self, at: float) -> float | None:
        """Seconds from a time until the first report at or after it."""
        return next((one - at for one in list(self._reported_at) if one >= at), None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@dataclass(frozen=True)
class Resources:
    """Resources that a process uses."""

    threads: int
    handles: int
    processes: int  # descendants, without zombies

    def exceeds(self, first: "Resources", by: "Resources") -> bool:
        """Whether any count exceeds the first one by more than `by`."""
        return any(getattr(self, n) > getattr(first, n) + getattr(by, n) for n in vars(self))


def resources(pid: int) -> Resources:
    """Return the resources of a running process.

    A dead shell below the JVM, which looked up Spark's command, may or may not be left.
    """
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Resources(threads, handles, sum(map(alive, descendants(pid))))


def running_jobs(ui: str) -> list[dict[str, Any]]:
    """Return the running jobs according to Spark."""
    (application,) = _get(f"{ui}/api/v1/applications")
    jobs: list[dict[str, Any]] = _get(
        f"{ui}/api/v1/applications/{application['id']}/jobs?status=running"
    )
    return jobs


def running_queries(ui: str) -> set[str]:
    """Return the runs of queries: in Real-time Mode each has one permanent job, in its own group.

    The batch job of a history does not count. A warm-up does, so counting needs short batches.
    """
    jobs = running_jobs(ui)
    return {str(job.get("jobGroup")) for job in jobs if job.get("description") != "history"}


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
