"""The actions of a storm: one small class per kind."""

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka.admin import NewPartitions

from rig import brokers, clock
from rig.running import START_S, alive, until
from rig.storm import SETTLED_S, SHOWN_S, Choice, Kind, Storm
from rig.world import PAIRS, Produce, Send, topics

JOINS = ("left", "inner", "left_outer")
SOURCES = ("users", "accounts")
GARBAGE = (
    *(b'{"userId": "x", "name": "cu', b'[{"userId": "x"}]', b"42", b"null", b"", b"\xff\xfe"),
    *(b'{"userId": {"a": 1}}', b'{"userId": "x"} {"userId": "y"}', b'{"userId": "x", "age": NaN}'),
    *(b'{"a":' * 2000 + b"1" + b"}" * 2000, b'{"userId": "' + b"x" * 200_000),
)
BAD = (
    *(b"{", b"[]", b"", b'"{}"', b'{"joinType": "sideways"}', b'{"usersTopic": "no-such-topic"}'),
    *(b'{"usersTopic": 1}', b'{"usersTopic": "a,b"}', b'{"usersTopic": ".*"}', b'{"users": "x"}'),
    *(b'{"usersTopic": "__consumer_offsets"}', b'{"usersTopic": "storm.ledger"}', b"\xff"),
)
MOST_PARTITIONS = 5
MOST_VIEWERS = 5


@dataclass(frozen=True)
class ProduceRecords:
    pair: str
    count: int

    def do(self, storm: Storm) -> None:
        with storm.traffic_lock:
            Produce(self.pair, self.count).do(storm.world)
        storm.landed["produce"] += 1


@dataclass(frozen=True)
class ProduceGarbage:
    pair: str
    count: int

    def do(self, storm: Storm) -> None:
        with storm.traffic_lock:
            for _ in range(self.count):
                storm.world.producers[self.pair].send(
                    storm.dice.choice(SOURCES), storm.dice.choice(GARBAGE)
                )
        storm.landed["garbage"] += 1


@dataclass(frozen=True)
class Tombstones:
    pair: str
    count: int

    def do(self, storm: Storm) -> None:
        with storm.traffic_lock:
            for number in range(self.count):
                to = storm.world.producers[self.pair]
                to.send(storm.dice.choice(SOURCES), None, key=f"{self.pair}-{number}")
        storm.landed["tombstones"] += 1


@dataclass(frozen=True)
class Swap:
    """A swap to other topics, another join, or both; nothing waits for it."""

    pair: str | None
    join: str | None

    def do(self, storm: Storm) -> None:
        message = {"joinType": self.join} if self.join else {}
        if self.pair:
            names = topics(storm.world.name, self.pair)
            message |= {"usersTopic": names["users"], "accountsTopic": names["accounts"]}
        storm.choice = self.pair or storm.choice[0], self.join or storm.choice[1]
        Send(message).do(storm.world)
        storm.valid_offsets.append(storm.world.offset)
        storm.landed["swap"] += 1


@dataclass(frozen=True)
class BadControl:
    def do(self, storm: Storm) -> None:
        Send(storm.dice.choice(BAD)).do(storm.world)
        storm.invalid_offsets.append(storm.world.offset)
        storm.landed["bad control"] += 1


@dataclass(frozen=True)
class Rollback:
    """A rollback to the standby generation; if there is none, one is built first."""

    def do(self, storm: Storm) -> None:
        storm.settle()
        if not self._standby(storm):
            pair, join = storm.choice
            Swap(pair, "inner" if join == "left" else "left").do(storm)
            storm.settle()
        standby = until(lambda: self._standby(storm), "there is a standby", SETTLED_S)
        Send({"action": "rollback"}).do(storm.world)
        at = storm.world.offset
        until(lambda: self._outcome(storm, at) in ("live", "rejected"), "rolled back", SETTLED_S)
        row = storm.world.outcome(at)
        assert row is not None
        if row["outcome"] == "rejected":  # the standby failed just now
            assert row["reason"], row
            return
        storm.choice = standby
        storm.valid_offsets.append(at)
        storm.landed["rollback"] += 1

    def _standby(self, storm: Storm) -> Choice | None:
        try:
            rows = [row for row in storm.world.generations() if row["state"] == "standby"]
        except AssertionError:
            return None  # livejoin is starting
        pairs = {storm.world.topics(pair)["users"]: pair for pair in PAIRS}
        usable = [row for row in rows if row["generation"] not in storm.broken_generations]
        return (pairs[usable[0]["usersTopic"]], usable[0]["joinType"]) if usable else None

    def _outcome(self, storm: Storm, offset: int) -> str:
        with contextlib.suppress(AssertionError):  # livejoin is starting
            row = storm.world.outcome(offset)
            return str(row["outcome"]) if row else ""
        return ""


@dataclass(frozen=True)
class Kill:
    """SIGKILL for one or more processes at once, and an immediate restart."""

    who: tuple[str, ...]

    def do(self, storm: Storm) -> None:
        live = storm.world.live
        jvm = until(live.jvms, "Spark's JVM", START_S)[0]
        pids = {"python": live.pid, "jvm": jvm, "broker": storm.broker.pid}
        assert all(alive(pids[one]) for one in self.who)
        storm.fault("kill " + " ".join(self.who), kills=len(self.who))
        if "broker" in self.who:
            storm.broker.kill()
        live.kill(*(pids[one] for one in self.who if one != "broker"))
        if self.who == ("jvm",):
            storm.must_report(str(self), time.monotonic())
        if "broker" in self.who:
            storm.broker.start()
        if "python" in self.who:
            until(lambda: not alive(jvm), "no orphan JVM")
            live.start()


@dataclass(frozen=True)
class BrokerOutage:
    """The broker is killed and stays down for a while."""

    seconds: float

    def do(self, storm: Storm) -> None:
        storm.fault("broker away", kills=1)
        storm.broker.kill()
        if self.seconds >= SHOWN_S:
            storm.must_report(str(self), time.monotonic())
        time.sleep(self.seconds)  # the length of the outage
        storm.broker.start()


@dataclass(frozen=True)
class Restart:
    """SIGTERM, as by a service manager, and a restart."""

    def do(self, storm: Storm) -> None:
        storm.fault("stop", stops=1)
        until(storm.world.live.handles_sigterm, "it has started to handle signals", START_S)
        assert storm.world.live.stop() == 0
        storm.world.live.start()


@dataclass(frozen=True)
class FreezeJvm:
    """The JVM is stopped (SIGSTOP) for a while."""

    seconds: float

    def do(self, storm: Storm) -> None:
        jvm = until(storm.world.live.jvms, "Spark's JVM", START_S)[0]
        storm.fault("freeze", freezes=1)
        os.kill(jvm, signal.SIGSTOP)
        try:
            time.sleep(self.seconds)  # the length of the pause
        finally:
            os.kill(jvm, signal.SIGCONT)


@dataclass(frozen=True)
class RecreateTopic:
    """A source topic is deleted and recreated, empty."""

    pair: str
    source: str

    def do(self, storm: Storm) -> None:
        one = storm.world
        storm.settle()  # a build that loses its topic may rightly fail
        with storm.paused_traffic():
            topic, started_at = one.topics(self.pair)[self.source], time.monotonic()
            column = f"{self.source}Topic"
            generations = [row for row in one.generations() if row[column] == topic]
            brokers.recreate(one.kafka, topic)
            if any(row["state"] == "live" for row in generations):
                storm.must_report(str(self), started_at)
            one.producers[self.pair].topic_recreated(self.source)
            for _, counts in one.floors:
                counts[self.pair, self.source] = 0
            storm.fault("topic again", topics_made_again=1)
            storm.broken_generations |= {row["generation"] for row in generations}


@dataclass(frozen=True)
class MorePartitions:
    pair: str
    source: str

    def do(self, storm: Storm) -> None:
        kafka, topic = storm.world.kafka, storm.world.topics(self.pair)[self.source]
        partitions = len(kafka.describe([topic])[topic].partitions)
        if partitions >= MOST_PARTITIONS:
            return
        for done in kafka.admin.create_partitions([NewPartitions(topic, partitions + 1)]).values():
            done.result(15)
        storm.fault("partitions", partitions_added=1)


@dataclass(frozen=True)
class AddViewers:
    count: int

    def do(self, storm: Storm) -> None:
        added = min(self.count, MOST_VIEWERS - len(storm.viewers))
        for _ in range(added):
            storm.join(storm.world.live.url)
        until(
            lambda: all(viewer.connects for viewer in storm.viewers), "they are connected", START_S
        )
        storm.landed["viewers come"] += added


@dataclass(frozen=True)
class RemoveViewers:
    """Removes viewers, except the one behind the proxy."""

    count: int

    def do(self, storm: Storm) -> None:
        for one in [viewer for viewer in storm.viewers if viewer.url == storm.world.live.url][
            : self.count
        ]:
            storm.leave(one)
            storm.landed["viewers go"] += 1


@dataclass(frozen=True)
class SlowNetwork:
    """A slow network between one viewer and its server, or between livejoin and Kafka."""

    to: str
    seconds: float
    delay_s: float
    bytes_per_s: int

    def do(self, storm: Storm) -> None:
        proxy = storm.to_server if self.to == "server" else storm.to_broker
        proxy.slow(self.delay_s, self.bytes_per_s)
        with storm.traffic_lock:
            Produce(storm.choice[0], 200).do(storm.world)  # some data to delay
        time.sleep(self.seconds)  # the length of the slowdown
        if proxy.fast():
            storm.fault(f"slow {self.to}", slow_networks=1)


@dataclass(frozen=True)
class ClockStep:
    """Steps the wall clock of livejoin's Python process; a repeated step sets it right again."""

    ahead_s: int

    def do(self, storm: Storm) -> None:
        steps = storm.world.clock_steps
        ahead_s = 0 if steps[-1].ahead_s == self.ahead_s else self.ahead_s
        storm.clock.set(ahead_s)
        steps.append(clock.ClockStep(datetime.now(UTC), ahead_s))
        storm.fault("clock step", clock_steps=1)


def _pair(dice: random.Random) -> str:
    return dice.choice(PAIRS)


def _swap(dice: random.Random) -> Swap:
    pair, join = dice.choice((None, *PAIRS)), dice.choice((None, *JOINS))
    return Swap(pair, join) if pair or join else Swap(_pair(dice), None)


KINDS = {
    "produce": Kind(10, lambda d: ProduceRecords(_pair(d), d.randint(50, 400))),
    "garbage": Kind(4, lambda d: ProduceGarbage(_pair(d), d.randint(5, 40))),
    "tombstones": Kind(4, lambda d: Tombstones(_pair(d), d.randint(5, 40))),
    "swap": Kind(12, _swap),
    "bad control": Kind(5, lambda _: BadControl()),
    "rollback": Kind(5, lambda _: Rollback()),
    "kill python": Kind(3, lambda _: Kill(("python",))),
    "kill jvm": Kind(3, lambda _: Kill(("jvm",))),
    "kill python jvm": Kind(3, lambda _: Kill(("python", "jvm"))),
    "kill python jvm broker": Kind(2, lambda _: Kill(("python", "jvm", "broker"))),
    "broker away": Kind(2, lambda d: BrokerOutage(round(d.uniform(0, 24), 1))),
    "stop": Kind(2, lambda _: Restart()),
    "freeze": Kind(2, lambda d: FreezeJvm(round(d.uniform(1, 12), 1))),
    "topic again": Kind(2, lambda d: RecreateTopic(_pair(d), d.choice(SOURCES))),
    "partitions": Kind(2, lambda d: MorePartitions(_pair(d), d.choice(SOURCES))),
    "viewers come": Kind(4, lambda d: AddViewers(d.randint(1, 3))),
    "viewers go": Kind(3, lambda d: RemoveViewers(d.randint(1, 2))),
    "slow server": Kind(2, lambda d: SlowNetwork("server", round(d.uniform(2, 8), 1), 0.2, 50_000)),
    "clock step": Kind(2, lambda d: ClockStep(d.choice((-86_400, -3600, 3600, 86_400)))),
    "slow broker": Kind(2, lambda d: SlowNetwork("broker", round(d.uniform(2, 8), 1), 0.05, 10**6)),
}
