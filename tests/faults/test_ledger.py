"""A21: a table server that starts with a long ledger."""

import json
from pathlib import Path

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.state import STATE_KEY, STATUS_KEY, State
from livejoin.kafka.cluster import Kafka
from rig.figures import Figures
from rig.ledgered import DATA, FakeLeader
from rig.protocol import Replica
from rig.records import records
from rig.running import Running, running, until

PAST, ROWS = 1000, 2000
RECEIVE_S = 30
SEGMENT = 1 << 20  # the minimum of the broker
IDS = tuple(f"{number:032d}" for number in range(1000))  # the maximum size of a state


def _write_past(kafka: Kafka, leader: FakeLeader, name: str) -> int:
    """Write a state for each of many generations, each in a transaction, as a leader does.

    Returns the number of bytes.
    """
    producer = kafka.producer(**{"transactional.id": f"{name}-leader"})
    producer.init_transactions(30)
    ledger, live, written = Names(name).ledger, None, 0
    for number in range(1, PAST + 1):
        # complete at once, so a server that acted on it would serve it without rows
        old, live = live, leader.generation_entry(number)
        state = State(last_number=number, live=live, standby=old, ids=IDS)
        status = {"state": "live", "generation": number, "message": ""}
        text = json.dumps(to_json(state))
        written += len(text)
        producer.begin_transaction()
        producer.produce(ledger, text, STATE_KEY)
        producer.produce(ledger, json.dumps(status), STATUS_KEY)
        producer.commit_transaction(30)
    return written


def _generations_shown(
    server: Running, last: int, kafka_to_release: Kafka | None, leader: str
) -> list[int]:
    """Return the generations shown to a viewer from the start to the first checked heartbeat."""
    replica = Replica()
    generations: list[int] = []
    address = server.url.replace("http", "ws") + "api/v1/live"
    protocols = [Subprotocol("livejoin.v1")]
    with connect(address, subprotocols=protocols, max_size=None, proxy=None) as socket:
        socket.send(json.dumps({"subscribe": DATA}))
        while True:
            frame = socket.recv(RECEIVE_S)
            assert isinstance(frame, bytes)
            header = replica.on_frame(frame)
            if header["generation"] is not None and header["generation"] not in generations[-1:]:
                generations.append(header["generation"])
                row_counts = {table: len(rows) for table, rows in replica.tables.items()}
                assert generations[-1] != last or row_counts == dict.fromkeys(DATA, ROWS)
            if header["type"] == "heartbeat" and header["generation"] == last:
                return generations
            if kafka_to_release is not None:
                kafka_to_release.create_topic(leader)  # the last topic that a server waits for
                kafka_to_release = None


def test_a21_a_server_over_a_long_ledger_shows_the_live_generation_first_and_whole(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    name = "a21"
    ledger = Names(name).ledger
    # no compaction, so the history is complete when a server starts
    lag = {"min.compaction.lag.ms": str(3600 * 1000)}
    kafka.create_topic(ledger, {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT), **lag})
    leader = FakeLeader(kafka, tmp_path, name, led=False)
    segments = _write_past(kafka, leader, name) // SEGMENT
    assert segments >= 20
    leader.set_live(leader.write_generation(PAST + 1, ROWS), standby=leader.generation_entry(PAST))
    settings = {"command": "serve", "name": name, "viewer_rows": 10**9}
    assert _states(kafka, ledger) == PAST + 1
    with running(kafka, tmp_path / "first", **settings) as server:
        until(lambda: _is_up(server), "the server responds")
        generations = _generations_shown(server, PAST + 1, kafka, Names(name).leader)
        assert generations == [PAST + 1]
    assert _states(kafka, ledger) == PAST + 1
    with running(kafka, tmp_path / "second", **settings) as server:
        until(lambda: _is_up(server), "the server responds")
        assert _generations_shown(server, PAST + 1, None, "") == [PAST + 1]
    case.landed(ledger_segments=segments, ledger_states=PAST + 1)
    print(f"\nA21: {PAST + 1} states in {segments} segments; shown: {generations}")


def _states(kafka: Kafka, ledger: str) -> int:
    """Return the number of states in the ledger."""
    return sum(record.key == STATE_KEY for record in records(kafka, ledger))


def _is_up(server: Running) -> bool:
    try:
        return bool(server.request("livez"))
    except AssertionError:
        return False
