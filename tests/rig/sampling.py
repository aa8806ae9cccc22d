"""Looks all the time: at topics of generations, at queries, and whether a fault is shown."""

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
    """The most that there ever were at one time."""

    def __init__(self, kafka: Kafka, name: str, spark_ui: str = "") -> None:
        self._kafka, self._names, self._ui = kafka, Names(name), spark_ui
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._loop, args=[self._look_at_topics])]
        if spark_ui:
            self._threads.append(threading.Thread(target=self._loop, args=[self._look_at_queries]))
        self.most_changelogs: set[int] = set()
        self.most_queries: set[str] = set()
        self.samples = {"topics": 0, "queries": 0}

    def _loop(self, look: Callable[[], None]) -> None:
        while not self._stop.wait(_EVERY_S):
            look()

    def _look_at_topics(self) -> None:
        try:
            topics = self._kafka.topics()
        except (KafkaException, LivejoinError):
            return  # the broker is down: then nobody makes topics either
        prefix = self._names.changelog(0)[:-1]
        found = {topic for topic in topics if topic.startswith(prefix)}
        numbers = {number for topic in found if (number := self._names.generation_of(topic))}
        self.samples["topics"] += 1
        self.most_changelogs = max(self.most_changelogs, numbers, key=len)

    def _look_at_queries(self) -> None:
        try:
            found = running_queries(self._ui)
        except OSError:
            return  # Spark's JVM is not there: no query runs in it
        self.samples["queries"] += 1
        self.most_queries = max(self.most_queries, found, key=len)

    def __enter__(self) -> Self:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join()


class Staleness:
    """When livejoin told somebody who looks all the time that its rows may be old."""

    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        self._status = status
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="staleness")
        self._told: list[float] = []  # monotonic
        self.samples = 0

    def _loop(self) -> None:
        while not self._stop.wait(_EVERY_S):
            began, status = time.monotonic(), self._status()
            # or nobody answers, which all can see as well
            if status["stale"] or not status["state"]:
                self._told.append(began)
            self.samples += 1

    def told_after(self, at: float) -> float | None:
        """How long after a moment it was first told."""
        return next((one - at for one in list(self._told) if one >= at), None)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@dataclass(frozen=True)
class Resources:
    """What a process holds of the machine."""

    threads: int
    handles: int
    processes: int  # below it, zombies aside

    def exceeds(self, first: "Resources", by: "Resources") -> bool:
        """Whether it is more than it was at first, by more than so much."""
        return any(getattr(self, n) > getattr(first, n) + getattr(by, n) for n in vars(self))


def resources(pid: int) -> Resources:
    """Of a process that runs.

    Whether the shell that looked up Spark's command is left below the JVM, dead, is chance.
    """
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Resources(threads, handles, sum(map(alive, descendants(pid))))


def running_jobs(ui: str) -> list[dict[str, Any]]:
    """The jobs that Spark says it runs."""
    (application,) = _get(f"{ui}/api/v1/applications")
    jobs: list[dict[str, Any]] = _get(
        f"{ui}/api/v1/applications/{application['id']}/jobs?status=running"
    )
    return jobs


def running_queries(ui: str) -> set[str]:
    """The runs of queries: in Real-time Mode each always has a job, in a group of its own.

    The batch job of a history is none. A rehearsal is one, so whoever counts has short batches.
    """
    jobs = running_jobs(ui)
    return {str(job.get("jobGroup")) for job in jobs if job.get("description") != "history"}


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
