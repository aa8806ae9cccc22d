"""`livejoin demo`: an embedded broker, sample producers and livejoin, all on this machine."""

import contextlib
import itertools
import json
import random
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
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker, running_demo
from livejoin.tables.auth import access_topics

PAIRS = {"a": ("users_a", "accounts_a"), "b": ("users_b", "accounts_b")}
_USERS = 400  # per pair of topics, at the first start
_PER_SECOND = 5
_MALFORMED_EVERY = 40
_FIRST_NAMES = (
    "Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Radia",
    "Tony", "Frances", "Ken", "Margaret", "Leslie", "Katherine", "Dennis",
)  # fmt: skip
_LAST_NAMES = (
    "Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Knuth",
    "Perlman", "Hoare", "Allen", "Thompson", "Hamilton", "Lamport",
)  # fmt: skip
_ACCOUNT_TYPES = ("checking", "savings", "brokerage", "pension")
_MALFORMED = (
    b'{"userId": "cut off',
    b'["not", "an", "object"]',
    b'{"userId": "u", "age": "abc"}',
    b'{"userId": {"nested": true}}',
    b"\xff\xfe not text",
)


def run(folder: Path, port: int, *, insecure: bool = False) -> int:
    """Run the demo with its data in a folder, until Ctrl-C; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    http = {"port": port, **({"insecure": True} if insecure else {})}
    with (
        broker.embedded_broker(folder / "broker") as kafka,
        _sample_producers(kafka),
        contextlib.ExitStack() as announced,
    ):
        values: dict[str, Any] = {
            "kafka": dict(kafka.properties),
            "topics": {"users": PAIRS["a"][0], "accounts": PAIRS["a"][1]},
            "checkpoints": str(folder / "checkpoints"),
        }
        chosen = settings.load(**values, http=http)

        def announce(url: str, sign_in_url: str) -> None:
            if not chosen.http.insecure:
                _ensure_token(kafka, Names(chosen.name), url)
            found_with = {**values, "http": {**http, "port": urlsplit(url).port}}
            running = running_demo.RunningDemo(kafka.address, url, found_with)
            announced.enter_context(running_demo.announced(running))
            _print_welcome(url, sign_in_url, kafka, folder)

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


def _print_welcome(url: str, sign_in_url: str, kafka: Kafka, folder: Path) -> None:
    users, accounts = PAIRS["a"]
    other_users, other_accounts = PAIRS["b"]
    url_option = "" if url == DEFAULT_URL else f" --url {url}"
    print(
        f"""
  livejoin demo: {users} joined with {accounts}, live

    page     {sign_in_url}
    broker   {kafka.address}
    data     {folder}

  Open the page, sort final_ui by balance, and watch rows change. Then, in another terminal:
    livejoin send --users-topic {other_users} --accounts-topic {other_accounts}{url_option}
    livejoin send --join inner{url_option}
    livejoin rollback{url_option}
    livejoin token sign-in{url_option}         (the URL above signs in once, within 5 minutes)
  Ctrl-C stops everything; the data is kept.
""",
        flush=True,
    )


@contextlib.contextmanager
def _sample_producers(kafka: Kafka) -> Iterator[None]:
    """Fill the topics at the first start, then produce a few changes per second."""
    stop = threading.Event()
    producer = kafka.producer()
    for pair, topics in PAIRS.items():
        if len(kafka.describe(topics)) < len(topics):
            for topic in topics:
                kafka.create_topic(topic, partitions=2)
            _produce_initial(producer, pair)
    thread = threading.Thread(
        target=_produce_changes, args=(producer, stop), name="sample producers"
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(5)


def _produce_initial(producer: Producer, pair: str) -> None:
    for number in range(_USERS):
        _produce_user(producer, pair, number)
        if number % 4:  # every fourth user has no account yet
            _produce_account(producer, pair, number)
    producer.flush(30)


def _produce_changes(producer: Producer, stop: threading.Event) -> None:
    for count in itertools.count():
        if stop.wait(1 / _PER_SECOND / len(PAIRS)):
            return
        turn, which = divmod(count, len(PAIRS))
        pair = list(PAIRS)[which]
        if turn % _MALFORMED_EVERY == 0:
            producer.produce(random.choice(PAIRS[pair]), random.choice(_MALFORMED))
        elif turn % 10 == 1:
            _produce_user(producer, pair, random.randrange(_USERS * 2))
        else:
            _produce_account(producer, pair, random.randrange(_USERS))
        producer.poll(0)


def _produce_user(producer: Producer, pair: str, number: int) -> None:
    rng = random.Random(f"{pair}{number}")  # the same number is always the same person
    first, last = rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)
    record = {
        "userId": f"{pair}-{number:04d}",
        "name": f"{first} {last}",
        "email": f"{first}.{last}@example.com".lower(),
        "age": rng.randrange(18, 90),
    }
    producer.produce(PAIRS[pair][0], json.dumps(record))


def _produce_account(producer: Producer, pair: str, number: int) -> None:
    balance = round(random.lognormvariate(7, 1.2), 2)
    record = {
        "userId": f"{pair}-{number:04d}",
        "accountType": random.choice(_ACCOUNT_TYPES),
        "balance": balance,
    }
    producer.produce(PAIRS[pair][1], json.dumps(record))
