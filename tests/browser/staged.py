"""A livejoin without Kafka and Spark, for page tests: real table server, real decisions.

Topics are in memory, and the test decides when rows arrive.
"""

import contextlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from livejoin.core import facts, shown
from livejoin.core.decide import decide
from livejoin.core.generation import Generation, Reading
from livejoin.core.inbound import BY_HEADER, understood
from livejoin.core.messages import Request
from livejoin.core.rows import TOMBSTONES, Change
from livejoin.core.spec import SOURCES, Choice
from livejoin.core.state import Limits, State, from_json, to_json
from livejoin.core.told import Ended, Line, Reply, row_id
from livejoin.kafka import Topic
from livejoin.tables.host import Host
from tables.fake_kafka import FakeKafka, Message
from tables.serving import RULES, Served, served

PAIRS = {"users_a": "accounts_a", "users_b": "accounts_b"}
KINDS = ("checking", "savings", "gold")
FIRST = ("Ada", "Bela", "Chen", "Dora", "Emil", "Fatma", "Goran", "Hanna", "Ivo", "Jun")
LAST = ("Arany", "Berg", "Costa", "Dietrich", "Eriksen", "Falk", "Grasso", "Huang", "Ito")
RAW = ("eyJhZ2UiOiAiYWJjIn0=", "YnJv/w==")  # {"age": "abc"}, and bytes that are not UTF-8
_ODD = 1_000_000  # first offset of the unusual records
HOSTILE = '<img src=x onerror="alert(1)">'


class Memory(FakeKafka):
    """Topics in memory; produced control messages go to the stage, the only orchestrator."""

    def __init__(self, stage: "Stage", count: int) -> None:
        now = int(time.time() * 1000)
        topics = {
            name: {0: [Message(0, n, raw, now - 60 * (count - n)) for n, raw in enumerate(raws)]}
            for users, accounts in PAIRS.items()
            for name, raws in (
                (users, [_json(_user(users, n)) for n in range(count)]),
                (accounts, [_json(_account(n)) for n in range(count)]),
            )
        }
        super().__init__({**topics, "events.empty": {0: []}, "odd": {0: [Message(0, 0, b"\xff")]}})
        self._stage = stage
        self._offsets = itertools.count()

    def find(self, names: Sequence[str]) -> Mapping[str, Topic | str]:  # type: ignore[override]
        found = self.describe(names)
        return {name: found.get(name, f'topic "{name}" does not exist') for name in names}

    def producer(self, **_settings: Any) -> Any:
        return self

    def produce(self, _topic: str, raw: bytes, *, on_delivery: Any, headers: Any) -> None:
        offset = next(self._offsets)
        on_delivery(None, SimpleNamespace(offset=lambda: offset))
        self._stage.asked(offset, raw, dict(headers)[BY_HEADER].decode())

    def flush(self, _wait_s: float) -> int:
        return 0


class Stage:
    """Runs the control plane's decisions and fills generations on request."""

    def __init__(
        self, count: int = 200, *, at_once: bool = True, max_rows: int = Limits.max_rows
    ) -> None:
        self.count = count
        self.at_once = at_once  # whether a build completes immediately
        self.limits = Limits(max_rows=max_rows)
        self.host = Host()
        self.kafka = Memory(self, count)
        self.state = State()
        self.serving: Served
        self._end: dict[int, int] = {}

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.serving.port}/"

    def start(self) -> None:
        """Make generation 1 live."""
        choice = Choice("users_a", "accounts_a")
        self._take(facts.Started(time.time(), time.monotonic(), choice, self.limits))
        self._take(facts.Folded("id", 0, Request()))
        self._take(facts.Listened("control"))
        self._build_if_asked()
        if self.state.building:
            self.finish()

    def asked(self, offset: int, raw: bytes, by: str) -> None:
        """Handle a control message."""
        inbound = understood(offset, time.time(), by, raw, RULES)
        names = inbound.request.topics if inbound.request else ()
        topics: dict[str, facts.Found | str] = {
            name: found if isinstance(found, str) else facts.Found(1, self.count)
            for name, found in self.kafka.find(list(names)).items()
        }
        self._take(facts.Ticked(time.time(), time.monotonic()))
        self._take(facts.Asked(inbound.origin, inbound.request, inbound.wrong, topics))
        self._build_if_asked()

    def _build_if_asked(self) -> None:
        building = self.state.building
        if building is not None and not building.resolved:
            topics = {"users": building.choice.users, "accounts": building.choice.accounts}
            readings = {s.name: Reading(topics[s.name], "id", {0: 0}, {0: -1}) for s in SOURCES}
            self._take(facts.Resolved(building.number, readings))
            if self.at_once:
                self.finish()

    def progress(self, percent: int) -> None:
        """Report the build's progress."""
        building = self._building()
        self._take(facts.Ticked(time.time(), time.monotonic()))
        self._take(facts.Progressed(building.number, percent, 100))

    def finish(self) -> None:
        """Complete the build; it goes live."""
        building = self._building()
        joined = list(_rows(building.choice, self.count))
        self.put(building.number, *joined)
        self._take(facts.Ticked(time.time(), time.monotonic()))
        self._take(facts.CaughtUp(building.number, self._end.get(building.number, 0)))

    def fail(self, why: str) -> None:
        """Fail the build."""
        self._take(facts.Spoilt(self._building().number, why))

    def _building(self) -> Generation:
        assert self.state.building is not None
        return self.state.building

    def put(self, number: int, *changes: Change) -> None:
        """Write records to a generation's changelog."""
        self._end[number] = self._end.get(number, 0) + len(changes)
        if changes:
            self.serving.apply(number, self._end[number], *changes)

    def change(self, number: int) -> None:
        """Add a user with an account to the live generation."""
        assert self.state.live is not None
        self.put(self.state.live.number, *pair(self.state.live.choice, number))

    def _take(self, fact: facts.Fact) -> None:
        state = decide(self.state, fact)
        told, self.state = state.untold, replace(state, untold=())
        self.serving.do(lambda host: _publish(host, state, told))


def _publish(host: Host, state: State, told: Sequence[Line | Reply | Ended]) -> None:
    """What the ledger and its followers would do."""
    for one in told:
        match one:
            case Line():
                line = {"ts": int(one.at * 1000), "level": one.level, "msg": one.msg}
                host.system.log([{**line, "_id": row_id(one.id)}])
            case Reply():
                host.system.show_control([{**one.row(), "_id": row_id(one.origin.offset)}])
            case Ended(generation):
                host.system.show_generations({generation.number: shown.ended_row(one)})
    host.system.show_generations(shown.generation_rows(state))
    host.follow(from_json(json.loads(json.dumps(to_json(state)))))
    host.show_status({**shown.status(state), "stale": shown.stale(state)})


def _json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode()


def _user(topic: str, n: int) -> dict[str, Any]:
    first, last = FIRST[n % len(FIRST)], LAST[n // len(FIRST) % len(LAST)]
    email = f"{first}.{last}@example.org".lower()
    return {"userId": f"{topic[-1]}-{n:04}", "name": f"{first} {last}", "email": email} | {
        "age": 18 + n * 7 % 70
    }


def _account(n: int, topic: str = "a") -> dict[str, Any]:
    balance = n * 7919 % 100_000 / 4
    return {"userId": f"{topic[-1]}-{n:04}", "accountType": KINDS[n % 3], "balance": balance}


def pair(choice: Choice, n: int, at: int | None = None) -> list[Change]:
    """A user, an account if there is one, and the joined row."""
    ts = int(time.time() * 1000) if at is None else at
    user, account = _user(choice.users, n), _account(n, choice.users)
    alone = n % 10 == 9
    joined = {**user, **({} if alone else account)}
    rows = [Change("users_ui", f"0-{n}", user, ts)]
    if not alone:
        rows.append(Change("accounts_ui", f"0-{n}", account, ts))
    if not (alone and choice.join == "inner"):
        rows.append(Change("final_ui", f"0-{n}", joined, ts, (ts, 0, n)))
    return rows


def _rows(choice: Choice, count: int) -> Iterator[Change]:
    if not count:
        return
    now = int(time.time() * 1000)
    for n in range(count):
        yield from pair(choice, n, now - 60 * (count - n))
    hostile = {"userId": "x", "name": HOSTILE, "email": "=1+1"}
    yield Change("users_ui", f"0-{_ODD}", hostile, now - 50)
    if choice.join != "inner":
        yield Change("final_ui", f"0-{_ODD}", hostile, now - 50, (0, 0, 0))
    reasons = ('age: expected int64, got "abc"', "value: not UTF-8")
    for offset, (reason, raw) in enumerate(zip(reasons, RAW, strict=True), _ODD + 1):
        at = {"source": "users", "topic": choice.users, "partition": 0, "offset": offset}
        row = {**at, "ts": now - 40 + offset - _ODD, "reason": reason, "raw": raw}
        yield Change("rejects_ui", f"users/0-{offset}", row, now - 40)
    yield Change(TOMBSTONES, f"accounts/0-{_ODD}", None, now)


@contextlib.contextmanager
def staged(count: int = 200, **options: Any) -> Iterator[Stage]:
    """A stage with its server, generation 1 live."""
    stage = Stage(count, **options)
    with served(stage.host, kafka=stage.kafka) as serving:
        stage.serving = serving
        stage.start()
        yield stage
