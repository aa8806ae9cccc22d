"""`livejoin demo`: an embedded broker, sample producers and livejoin, all on this machine."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer

from livejoin import orchestrator
from livejoin.client import credentials
from livejoin.client.endpoint import DEFAULT_URL
from livejoin.config import settings
from livejoin.core.names import Names
from livejoin.core.tokens import find_token
from livejoin.demo_samples import SETS, Example
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker, running_demo
from livejoin.tables.auth import access_topics

_PER_SECOND = 5


def run(folder: Path, port: int, example: Example, *, insecure: bool = False) -> int:
    """Run the demo with its data in a folder, until Ctrl-C; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    http = {"port": port, **({"insecure": True} if insecure else {})}
    with (
        broker.embedded_broker(folder / "broker") as kafka,
        _sample_producers(kafka, example),
        contextlib.ExitStack() as announced,
    ):
        values: dict[str, Any] = {
            "kafka": dict(kafka.properties),
            **example.settings,
            "checkpoints": str(folder / "checkpoints"),
        }
        chosen = settings.load(**values, http=http)

        def announce(url: str, sign_in_url: str) -> None:
            if not chosen.http.insecure:
                _ensure_token(kafka, Names(chosen.name), url)
            found_with = {**values, "http": {**http, "port": urlsplit(url).port}}
            running = running_demo.RunningDemo(kafka.address, url, found_with)
            announced.enter_context(running_demo.announced(running))
            _print_welcome(url, sign_in_url, kafka, folder, example)

        return orchestrator.run(chosen, announce)


def _ensure_token(kafka: Kafka, names: Names, url: str) -> None:
    """Store a token for commands in other terminals, unless a valid one is stored."""
    access_topics.create_topics(kafka, names)
    text = credentials.stored_token(url)
    token = find_token(text, access_topics.read_tokens(kafka, names)) if text else None
    if token is None or token.invalid_reason(time.time()):
        credentials.store_token(
            url, access_topics.create_token(kafka, names, "operator", "demo", None)
        )


def _print_welcome(
    url: str, sign_in_url: str, kafka: Kafka, folder: Path, example: Example
) -> None:
    driver, *lookups = example.topics(SETS[0]).values()
    others = example.topics(SETS[1]).items()
    options = " ".join(f"--{source}-topic {topic}" for source, topic in others)
    url_option = "" if url == DEFAULT_URL else f" --url {url}"
    join = f"\n    livejoin send --join inner{url_option}" if len(lookups) == 1 else ""
    print(
        f"""
  livejoin demo: {driver} joined with {" and ".join(lookups)}, live

    page     {sign_in_url}
    broker   {kafka.address}
    data     {folder}

  Open the page, {example.hint}. Then, in another terminal:
    livejoin send {options}{url_option}{join}
    livejoin rollback{url_option}
    livejoin token sign-in{url_option}         (the URL above signs in once, within 5 minutes)
  Ctrl-C stops everything; the data is kept.
""",
        flush=True,
    )


@contextlib.contextmanager
def _sample_producers(kafka: Kafka, example: Example) -> Iterator[None]:
    """Fill the topics at the first start, then produce a few changes per second."""
    stop = threading.Event()
    producer = kafka.producer()
    for which in SETS:
        topics = example.topics(which).values()
        if len(kafka.describe(topics)) < len(topics):
            for topic in topics:
                kafka.create_topic(topic, partitions=2)
            example.produce_initial(producer, which)
    thread = threading.Thread(
        target=_produce_changes, args=(producer, example, stop), name="sample producers"
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(5)


def _produce_changes(producer: Producer, example: Example, stop: threading.Event) -> None:
    for count in itertools.count():
        if stop.wait(1 / _PER_SECOND / len(SETS)):
            return
        turn, which = divmod(count, len(SETS))
        example.produce_change(producer, SETS[which], turn)
