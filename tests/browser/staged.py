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
from typing import Any, Protocol

from livejoin.core import facts, status_rows
from livejoin.core.changelog import TOMBSTONES, ChangelogRecord
from livejoin.core.control_messages import Request
from livejoin.core.control_records import BY_HEADER, parse_record
from livejoin.core.decide import decide
from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.spec import DEFAULT, Choice, JoinSpec
from livejoin.core.state import EndedGeneration, Limits, LogLine, Reply, State, row_id
from livejoin.kafka.cluster import Topic
from livejoin.tables.http.server import Access
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.decode import decoder
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RULES, RunningServer, run_server

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
            for name, raws in stage.content.topics(count).items()
        }
        super().__init__({**topics, "events.empty": {0: []}, "odd": {0: [Message(0, 0, b"\xff")]}})
        self._stage = stage
        self._offsets = itertools.count()

    def describe_readable(self, names: Sequence[str]) -> Mapping[str, Topic | str]:  # type: ignore[override]
        found = self.describe(names)
        return {name: found.get(name, f'topic "{name}" does not exist') for name in names}

    def producer(self, **_settings: Any) -> Any:
        return self

    def produce(
        self, _topic: str, raw: bytes, *, partition: int, on_delivery: Any, headers: Any
    ) -> None:
        assert partition == 0, "the stage's control topic has one partition"
        offset = next(self._offsets)
        on_delivery(None, SimpleNamespace(offset=lambda: offset))
        self._stage.handle_message(offset, raw, dict(headers)[BY_HEADER].decode())

    def flush(self, _wait_s: float) -> int:
        return 0


class Content(Protocol):
    """What is joined on a stage."""

    join_spec: JoinSpec
    choice: Choice  # of the first generation

    def topics(self, count: int) -> Mapping[str, Sequence[bytes]]:
        """The records of each topic."""

    def rows(self, choice: Choice, count: int) -> Iterator[ChangelogRecord]:
        """What a generation of this choice writes."""


class UsersAndAccounts:
    """The default sources."""

    join_spec = DEFAULT
    choice = DEFAULT.choice("users_a", "accounts_a")

    def topics(self, count: int) -> Mapping[str, Sequence[bytes]]:
        pairs = [
            {
                users: [_json(_user(users, n)) for n in range(count)],
                accounts: [_json(_account(n)) for n in range(count)],
            }
            for users, accounts in PAIRS.items()
        ]
        return {name: raws for pair in pairs for name, raws in pair.items()}

    def rows(self, choice: Choice, count: int) -> Iterator[ChangelogRecord]:
        return _rows(choice, count)


class Stage:
    """Runs the control plane's decisions and fills generations on request."""

    def __init__(
        self,
        count: int = 200,
        *,
        at_once: bool = True,
        max_rows: int = Limits.max_rows,
        content: Content | None = None,
    ) -> None:
        self.content: Content = content or UsersAndAccounts()
        self.rules = replace(RULES, spec=self.content.join_spec)
        self.count = count
        self.at_once = at_once  # whether a build completes immediately
        self.limits = Limits(max_rows=max_rows)
        self.host = Catalog(self.content.join_spec)
        self.kafka = Memory(self, count)
        self.state = State()
        self.serving: RunningServer
        self._end: dict[int, int] = {}

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.serving.port}/"

    def start(self) -> None:
        """Make generation 1 live."""
        started = facts.LeaderStarted(
            time.time(),
            time.monotonic(),
            self.content.choice,
            self.limits,
            spec=self.content.join_spec,
        )
        self._take(started)
        self._take(facts.HistoryReplayed("id", {0: 0}, Request()))
        self._take(facts.ControlTopicOpened("control", {0: 0}))
        self._build_if_asked()
        if self.state.building:
            self.finish()

    def handle_message(self, offset: int, raw: bytes, by: str) -> None:
        """Handle a control message."""
        inbound = parse_record(0, offset, time.time(), by, raw, self.rules)
        names = inbound.request.topics.values() if inbound.request else ()
        topics: dict[str, facts.TopicInfo | str] = {
            name: found if isinstance(found, str) else facts.TopicInfo(1, self.count)
            for name, found in self.kafka.describe_readable(list(names)).items()
        }
        self._take(facts.ClockTicked(time.time(), time.monotonic()))
        self._take(facts.MessageReceived(inbound.origin, inbound.request, inbound.error, topics))
        self._build_if_asked()

    def _build_if_asked(self) -> None:
        building = self.state.building
        if building is not None and not building.resolved:
            topics = building.choice.topics
            readings = {
                source: Reading(topics[source], "id", {0: 0}, {0: -1})
                for source in building.spec.source_names
            }
            self._take(facts.SourcesResolved(building.number, readings))
            if self.at_once:
                self.finish()

    def progress(self, percent: int) -> None:
        """Report the build's progress."""
        building = self._building()
        self._take(facts.ClockTicked(time.time(), time.monotonic()))
        self._take(facts.BuildProgressed(building.number, percent, 100))

    def finish(self) -> None:
        """Complete the build; it goes live."""
        building = self._building()
        joined = list(self.content.rows(building.choice, self.count))
        self.put(building.number, *joined)
        self._take(facts.ClockTicked(time.time(), time.monotonic()))
        self._take(facts.CaughtUp(building.number, self._end.get(building.number, 0)))

    def show(self, content: Content) -> None:
        """Cut over to a generation with other sources, as a leader with other settings does."""
        self.content = content
        number = self.state.last_number + 1
        live = Generation(number, content.choice, time.time(), spec=content.join_spec, ready_at=1)
        changes = list(content.rows(content.choice, self.count))
        self.state = replace(self.state, live=live, last_number=number, spec=content.join_spec)
        state = self.state

        def publish(catalog: Catalog) -> None:
            raw = [(change.key(), change.value()) for change in changes]
            catalog.apply_state(from_json(json.loads(json.dumps(to_json(state)))))
            catalog.apply(decoder(content.join_spec).decode_chunk(number, len(raw), raw))
            _publish(catalog, state, ())

        self._end[number] = len(changes)
        self.serving.run_on_loop(publish)

    def fail(self, why: str) -> None:
        """Fail the build."""
        self._take(facts.Unrecoverable(self._building().number, why))

    def _building(self) -> Generation:
        assert self.state.building is not None
        return self.state.building

    def put(self, number: int, *changes: ChangelogRecord) -> None:
        """Write records to a generation's changelog."""
        self._end[number] = self._end.get(number, 0) + len(changes)
        if not changes:
            return
        raw = [(change.key(), change.value()) for change in changes]
        chunk = decoder(self.content.join_spec).decode_chunk(number, self._end[number], raw)
        self.serving.run_on_loop(lambda catalog: catalog.apply(chunk))

    def change(self, number: int) -> None:
        """Add a user with an account to the live generation."""
        assert self.state.live is not None
        self.put(self.state.live.number, *pair(self.state.live.choice, number))

    def join(self, number: int, **cells: Any) -> None:
        """Add or change the joined row of a user, with these cells. It is the newest then."""
        assert self.state.live is not None
        now = int(time.time() * 1000)
        row = {**(pair(self.state.live.choice, number)[-1].row or {}), **cells}
        version = (now, 0, number)
        self.put(
            self.state.live.number, ChangelogRecord("final_ui", f"0-{number}", row, now, version)
        )

    def _take(self, fact: facts.Fact) -> None:
        state = decide(self.state, fact)
        items, self.state = state.outbox, replace(state, outbox=())
        self.serving.run_on_loop(lambda catalog: _publish(catalog, state, items))


def _publish(
    catalog: Catalog, state: State, items: Sequence[LogLine | Reply | EndedGeneration]
) -> None:
    """What the ledger and its followers would do."""
    for item in items:
        match item:
            case LogLine():
                catalog.system.add_log_lines([{**item.row(), "_id": row_id(item.id)}])
            case Reply():
                row = {**item.control_raw_row(state.spec), "_id": item.row_id}
                catalog.system.put_control_messages([row])
            case EndedGeneration(generation):
                catalog.system.put_generations({generation.number: status_rows.ended_row(item)})
    catalog.system.put_generations(status_rows.generation_rows(state))
    catalog.apply_state(from_json(json.loads(json.dumps(to_json(state)))))
    catalog.set_status({**status_rows.status_row(state), "stale": status_rows.stale_reason(state)})


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


def pair(choice: Choice, n: int, at: int | None = None) -> list[ChangelogRecord]:
    """A user, an account if there is one, and the joined row."""
    ts = int(time.time() * 1000) if at is None else at
    user, account = _user(choice.topics["users"], n), _account(n, choice.topics["users"])
    alone = n % 10 == 9
    joined = {**user, **({} if alone else account)}
    rows = [ChangelogRecord("users_ui", f"0-{n}", user, ts)]
    if not alone:
        rows.append(ChangelogRecord("accounts_ui", f"0-{n}", account, ts))
    if not (alone and choice.join == "inner"):
        rows.append(ChangelogRecord("final_ui", f"0-{n}", joined, ts, (ts, 0, n)))
    return rows


def _rows(choice: Choice, count: int) -> Iterator[ChangelogRecord]:
    if not count:
        return
    now = int(time.time() * 1000)
    for n in range(count):
        yield from pair(choice, n, now - 60 * (count - n))
    hostile = {"userId": "x", "name": HOSTILE, "email": "=1+1"}
    yield ChangelogRecord("users_ui", f"0-{_ODD}", hostile, now - 50)
    if choice.join != "inner":
        yield ChangelogRecord("final_ui", f"0-{_ODD}", hostile, now - 50, (0, 0, 0))
    reasons = ('age: expected int64, got "abc"', "value: not UTF-8")
    for offset, (reason, raw) in enumerate(zip(reasons, RAW, strict=True), _ODD + 1):
        at = {"source": "users", "topic": choice.topics["users"], "partition": 0, "offset": offset}
        row = {**at, "ts": now - 40 + offset - _ODD, "reason": reason, "raw": raw}
        yield ChangelogRecord("rejects_ui", f"users/0-{offset}", row, now - 40)
    yield ChangelogRecord(TOMBSTONES, f"accounts/0-{_ODD}", None, now)


@contextlib.contextmanager
def staged(count: int = 200, *, access: Access | None = None, **options: Any) -> Iterator[Stage]:
    """A stage with its server, generation 1 live."""
    stage = Stage(count, **options)
    with run_server(stage.host, kafka=stage.kafka, rules=stage.rules, access=access) as serving:
        stage.serving = serving
        stage.start()
        yield stage
