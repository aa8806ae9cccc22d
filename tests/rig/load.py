"""Records by the thousand: a producer that remembers them in columns, and the expected tables.

Every value follows from the record's number, so number, offset and time as acknowledged by the
broker suffice to compute all tables, with polars instead of row by row.
"""

import threading
import time
from array import array
from types import TracebackType
from typing import Any, Self

import polars as pl
from confluent_kafka import KafkaError, Message

from livejoin.kafka.cluster import Kafka

_SPREAD = 7919  # prime, so that consecutive accounts belong to distant users
_TICK_S = 0.01
Frame = pl.DataFrame
TYPES = ("current", "savings", "joint")


class Load:
    """Users and accounts at a steady rate. User number n has the userId `un`."""

    def __init__(self, kafka: Kafka, topics: dict[str, str]) -> None:
        self._topics = topics
        # at these rates a batch fills in some ms, which saves the broker most of its work
        self._producer = kafka.producer(**{"linger.ms": 5, "queue.buffering.max.messages": 10**6})
        self._failed: list[str] = []
        self.users = 0  # number sent
        self.accounts = 0
        self.sent_at = array("d")  # monotonic time at which each account was sent
        self._columns = {
            source: {name: array("q") for name in ("number", "partition", "offset", "time")}
            for source in topics
        }

    def user(self) -> None:
        """Send one more user."""
        number, self.users = self.users, self.users + 1
        fields = f'"userId":"u{number}","name":"Name {number}","email":"{number}@b.example"'
        self._send("users", number, f'{{{fields},"age":{number % 90}}}')

    def account(self) -> None:
        """Send one more account of an existing user."""
        number, self.accounts = self.accounts, self.accounts + 1
        user = number * _SPREAD % self.users
        kind = TYPES[number % 3]
        self.sent_at.append(time.monotonic())
        # the owner depends on the number of users so far, so it is stored in the number
        value = f'{{"userId":"u{user}","accountType":"{kind}","balance":{number}}}'
        self._send("accounts", number << 32 | user, value)

    def _send(self, source: str, number: int, value: str) -> None:
        columns = self._columns[source]

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed.append(error.str())
                return
            columns["number"].append(number)
            columns["partition"].append(message.partition() or 0)
            columns["offset"].append(message.offset() or 0)
            columns["time"].append(message.timestamp()[1])

        self._producer.produce(self._topics[source], value, on_delivery=delivered)

    def flush(self, limit_s: float = 120) -> None:
        """Wait until all records are acknowledged."""
        assert self._producer.flush(limit_s) == 0
        assert not self._failed, self._failed[:3]

    def fill(self, users: int, accounts: int = 0) -> None:
        """Send users, then accounts, as fast as the broker accepts them."""
        for send, count in ((self.user, users), (self.account, accounts)):
            for number in range(count):
                send()
                if number % 1000 == 999:
                    self._producer.poll(0)
            self.flush()

    @property
    def acknowledged(self) -> int:
        return sum(len(columns["number"]) for columns in self._columns.values())

    def send_at_rate(self, users: float, accounts: float, seconds: float) -> float:
        """Send at these rates for `seconds`; returns the seconds it took."""
        began = time.monotonic()
        sent = {"users": 0, "accounts": 0}
        while (passed := time.monotonic() - began) < seconds:
            for _ in range(int(users * passed) - sent["users"]):
                self.user()
                sent["users"] += 1
            for _ in range(int(accounts * passed) - sent["accounts"]):
                self.account()
                sent["accounts"] += 1
            self._producer.poll(0)
            time.sleep(_TICK_S)  # the tick of the load
        self.flush()
        return time.monotonic() - began

    def expected_tables(self, max_rows: int | None = None) -> dict[str, Frame]:
        """Return the tables that all acknowledged records give; `final_ui` is a left join.

        With a limit, each table has only its rows of the highest rank.
        """
        users = self._frame("users").with_columns(
            userId=pl.format("u{}", "number"),
            name=pl.format("Name {}", "number"),
            email=pl.format("{}@b.example", "number"),
            age=pl.col("number") % 90,
        )
        account_number = pl.col("number") // (1 << 32)
        accounts = self._frame("accounts").with_columns(
            userId=pl.format("u{}", pl.col("number") % (1 << 32)),
            accountType=pl.lit(pl.Series(TYPES)).gather(account_number % 3),
            balance=account_number.cast(pl.Float64),
        )
        newest = accounts.sort("time", "partition", "offset").group_by("userId").last()
        latest = newest.select("userId", "accountType", "balance", of_account="time")
        final = users.join(latest, "userId", "left")
        final = final.with_columns(time=pl.max_horizontal("time", "of_account"))
        if max_rows is not None:
            rank = ("time", "partition", "offset")
            users, accounts, final = (
                one.sort(*rank).tail(max_rows) for one in (users, accounts, final)
            )
        ts = pl.col("time").cast(pl.Datetime("ms", "UTC")).alias("_ts")
        of_user, of_account = ("name", "email", "age"), ("accountType", "balance")
        return {
            "users_ui": users.select("_id", "userId", *of_user, ts),
            "accounts_ui": accounts.select("_id", "userId", *of_account, ts),
            "final_ui": final.select("_id", "userId", *of_user, *of_account, ts),
        }

    def _frame(self, source: str) -> Frame:
        columns = {name: pl.Series(name, of) for name, of in self._columns[source].items()}
        return pl.DataFrame(columns).with_columns(_id=pl.format("{}-{}", "partition", "offset"))


def differences(found: Frame, truth: Frame) -> tuple[int, int, int]:
    """Return the numbers of missing rows, wrong cells (unexpected rows: all) and compared rows."""
    found = found.select(truth.columns)
    lost = truth.join(found, "_id", "anti").height
    extra = found.join(truth, "_id", "anti").height
    both = truth.join(found, "_id", "inner", suffix=" found")
    wrong = sum(
        both.filter(pl.col(name).ne_missing(pl.col(f"{name} found"))).height
        for name in truth.columns
        if name != "_id"
    )
    return lost, wrong + extra * len(truth.columns), truth.height


class PeriodicSampler:
    """A thread that takes a sample every second."""

    def __init__(self, sample: Any) -> None:
        self._sample = sample
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples: list[Any] = []

    def _run(self) -> None:
        while not self._stop.wait(1):
            self.samples.append(self._sample())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
