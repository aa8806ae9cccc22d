"""`livejoin demo`: a broker, sample producers for two pairs of topics, and livejoin over them.

All on this machine alone.
"""

import contextlib
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from livejoin import app
from livejoin.client import credentials, http
from livejoin.config import settings
from livejoin.core.names import Names
from livejoin.core.tokens import find_token as known_token
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker
from livejoin.tables.auth import access_topics

PAIRS = {"a": ("users_a", "accounts_a"), "b": ("users_b", "accounts_b")}
_USERS = 400  # per pair, at the first start
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
    """Run the demo over a folder, until Ctrl-C."""
    folder.mkdir(parents=True, exist_ok=True)
    with broker.embedded_broker(folder / "broker") as kafka, _sample_producers(kafka):
        chosen = settings.load(
            kafka=kafka.properties,
            topics={"users": PAIRS["a"][0], "accounts": PAIRS["a"][1]},
            checkpoints=str(folder / "checkpoints"),
            http={"port": port, **({"insecure": True} if insecure else {})},
        )

        def announce(url: str, signing_in: str) -> None:
            if not chosen.http.insecure:
                _ensure_token(kafka, Names(chosen.name), url)
            _print_welcome(url, signing_in, kafka, folder)

        return app.run(chosen, announce)


def _ensure_token(kafka: Kafka, names: Names, url: str) -> None:
    """Have a token for commands in another terminal: the one of last time, or a new one."""
    access_topics.create_topics(kafka, names)
    text = credentials.stored_token(url)
    token = known_token(text, access_topics.read_tokens(kafka, names)) if text else None
    if token is None or token.invalid_reason(time.time()):
        credentials.store_token(
            url, access_topics.create_token(kafka, names, "operator", "demo", None)
        )


def _print_welcome(url: str, signing_in: str, kafka: Kafka, folder: Path) -> None:
    users, accounts = PAIRS["a"]
    other_users, other_accounts = PAIRS["b"]
    at = "" if url == http.DEFAULT_URL else f" --url {url}"
    print(
        f"""
  livejoin demo: {users} joined with {accounts}, live

    page     {signing_in}
    broker   {kafka.address}
    data     {folder}

  To try: open the page, sort final_ui by balance, and watch rows change in place. Then, elsewhere,
    livejoin send --users-topic {other_users} --accounts-topic {other_accounts}{at}
    livejoin send --join inner{at}
    livejoin rollback{at}
    livejoin token sign-in{at}         (the page's address above signs in once, within 5 minutes)
  Ctrl-C stops everything; the data stays.
""",
        flush=True,
    )


@contextlib.contextmanager
def _sample_producers(kafka: Kafka) -> Iterator[None]:
    """Fill the topics at the first start, then let a few changes trickle until told to stop."""
    stop = threading.Event()
    producer = kafka.producer()
    for pair, topics in PAIRS.items():
        if len(kafka.describe(topics)) < len(topics):
            for topic in topics:
                kafka.create_topic(topic, partitions=2)
            _produce_initial(producer, pair)
    trickle = threading.Thread(
        target=_produce_changes, args=(producer, stop), name="sample producers"
    )
    trickle.start()
    try:
        yield
    finally:
        stop.set()
        trickle.join()
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
    dice = random.Random(f"{pair}{number}")  # the same person whenever the number comes
    name, family = dice.choice(_FIRST_NAMES), dice.choice(_LAST_NAMES)
    record = {
        "userId": f"{pair}-{number:04d}",
        "name": f"{name} {family}",
        "email": f"{name}.{family}@example.com".lower(),
        "age": dice.randrange(18, 90),
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
