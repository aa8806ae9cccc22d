"""Sample data of `livejoin demo`: what each example joins, and records for its topics.

Every example has two sets of topics, `a` and `b`, to swap between.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer

SETS = ("a", "b")
_KEYS = 400  # users or customers per set of topics, at the first start
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
_CITIES = ("Lisbon", "Oslo", "Nairobi", "Quito", "Osaka", "Perth", "Paris", "Tallinn")
_METHODS = ("card", "transfer", "invoice")

# Sources of the example `orders`; users and accounts need no declaration.
_ORDERS = {
    "orders": {
        "key": "customerId",
        "fields": {
            "orderId": "string",
            "customerId": "string",
            "total": "decimal(12,2)",
            "city": {"path": "$.address.city", "type": "string"},
            "at": "timestamp",
        },
    },
    "customers": {"key": "id", "fields": {"id": "string", "name": "string", "vip": "boolean"}},
    "payments": {
        "key": "customerId",
        "fields": {"customerId": "string", "method": "string", "paid": "decimal(12,2)"},
    },
}

Send = Callable[[str, Any], None]  # a source and a record, or bytes


@dataclass(frozen=True)
class Example:
    """What a demo joins."""

    sources: tuple[str, ...]
    declared: Mapping[str, Any]  # the setting `sources`
    malformed: tuple[bytes, ...]
    fill: Callable[[Send, str], None]  # a set of topics, at the first start
    change: Callable[[Send, str], None]  # one record of a set
    hint: str  # what to try on the page

    def topics(self, which: str) -> dict[str, str]:
        """The topics of a set, by source."""
        return {source: f"{source}_{which}" for source in self.sources}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that say what is joined."""
        first = self.topics(SETS[0])
        if not self.declared:
            return {"topics": first}
        return {"sources": {name: {**one, "topic": first[name]} for name, one in _ORDERS.items()}}

    def produce_initial(self, producer: Producer, which: str) -> None:
        """Fill a set of topics."""
        self.fill(self._sender(producer, which), which)
        producer.flush(30)

    def produce_change(self, producer: Producer, which: str, turn: int) -> None:
        """Produce one more record, now and then a malformed one."""
        send = self._sender(producer, which)
        if turn % _MALFORMED_EVERY == 0:
            send(random.choice(self.sources), random.choice(self.malformed))
        else:
            self.change(send, which)
        producer.poll(0)

    def _sender(self, producer: Producer, which: str) -> Send:
        topics = self.topics(which)

        def send(source: str, record: Any) -> None:
            value = record if isinstance(record, bytes) else json.dumps(record)
            producer.produce(topics[source], value)

        return send


def _person(which: str, number: int) -> tuple[random.Random, str, str]:
    """The same number is always the same person."""
    rng = random.Random(f"{which}{number}")
    return rng, rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)


def _fill_users(send: Send, which: str) -> None:
    for number in range(_KEYS):
        _send_user(send, which, number)
        if number % 4:  # every fourth user has no account yet
            _send_account(send, which, number)


def _change_users(send: Send, which: str) -> None:
    if random.random() < 0.1:
        _send_user(send, which, random.randrange(_KEYS * 2))
    else:
        _send_account(send, which, random.randrange(_KEYS))


def _send_user(send: Send, which: str, number: int) -> None:
    rng, first, last = _person(which, number)
    record = {
        "userId": f"{which}-{number:04d}",
        "name": f"{first} {last}",
        "email": f"{first}.{last}@example.com".lower(),
        "age": rng.randrange(18, 90),
    }
    send("users", record)


def _send_account(send: Send, which: str, number: int) -> None:
    record = {
        "userId": f"{which}-{number:04d}",
        "accountType": random.choice(_ACCOUNT_TYPES),
        "balance": round(random.lognormvariate(7, 1.2), 2),
    }
    send("accounts", record)


def _fill_orders(send: Send, which: str) -> None:
    for number in range(_KEYS):
        if number % 10:  # every tenth customer is not known yet
            _send_customer(send, which, number)
        if number % 3:
            _send_payment(send, which, number)
    for _ in range(2 * _KEYS):
        _send_order(send, which, random.randrange(_KEYS))


def _change_orders(send: Send, which: str) -> None:
    number = random.randrange(_KEYS)
    kinds = (_send_order, _send_payment, _send_customer)
    (kind,) = random.choices(kinds, weights=(5, 4, 1))
    kind(send, which, number)


def _send_order(send: Send, which: str, number: int) -> None:
    record = {
        "orderId": f"{which}-{random.randrange(10**8):08d}",
        "customerId": f"{which}{number:04d}",
        "total": f"{random.lognormvariate(4, 1):.2f}",
        "address": {"city": random.choice(_CITIES), "zip": f"{random.randrange(10**5):05d}"},
        "at": int(time.time() * 1000),
    }
    send("orders", record)


def _send_customer(send: Send, which: str, number: int) -> None:
    rng, first, last = _person(which, number)
    record = {"id": f"{which}{number:04d}", "name": f"{first} {last}", "vip": rng.random() < 0.1}
    send("customers", record)


def _send_payment(send: Send, which: str, number: int) -> None:
    record = {
        "customerId": f"{which}{number:04d}",
        "method": random.choice(_METHODS),
        "paid": f"{random.lognormvariate(4, 1):.2f}",
    }
    send("payments", record)


EXAMPLES: Mapping[str, Example] = {
    "users": Example(
        ("users", "accounts"),
        {},
        (
            b'{"userId": "cut off',
            b'["not", "an", "object"]',
            b'{"userId": "u", "age": "abc"}',
            b'{"userId": {"nested": true}}',
            b"\xff\xfe not text",
        ),
        _fill_users,
        _change_users,
        "sort final_ui by balance, and watch rows change",
    ),
    "orders": Example(
        tuple(_ORDERS),
        _ORDERS,
        (
            b'{"customerId": "cut off',
            b'{"customerId": "a0001", "total": "12.345", "paid": 0.001}',
            b'{"customerId": "a0001", "id": [], "address": {"city": {}}}',
            b'{"id": "a0001", "customerId": "a0001", "at": "2026-01-31", "vip": 1, "paid": "1,2"}',
        ),
        _fill_orders,
        _change_orders,
        "sort final_ui by total, and watch new orders come with their customer's latest payment",
    ),
}
