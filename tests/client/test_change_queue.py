"""The pending changes of one iterator."""

import pytest

from client.modelled import FINAL, STATUS, ServerModel
from livejoin.client import change_queue
from livejoin.client.change_queue import ChangeQueue
from livejoin.client.protocol import Change, ClientSession


class QueueFixture:
    """A session whose changes go to one queue."""

    def __init__(self) -> None:
        self.server, self.session, self.feed = (
            ServerModel(),
            ClientSession(STATUS, FINAL),
            ChangeQueue(FINAL),
        )
        self.receive(self.server.answer(self.session.connected()))

    def receive(self, data: bytes) -> None:
        for event in self.session.receive(data, 1.0):
            assert isinstance(event, Change)
            self.feed.put(event)

    def drain(self) -> list[tuple[str, int | None, list[str]]]:
        drained: list[tuple[str, int | None, list[str]]] = []
        while (change := self.feed.get(self.session)) is not None:
            ids = change.rows.column("_id").to_pylist()
            drained.append((change.kind, change.generation, ids))
        return drained


def test_it_is_empty_before_the_first_frame() -> None:
    assert ChangeQueue(FINAL).get(ClientSession(FINAL)) is None


def test_it_yields_a_snapshot_then_changes_in_order() -> None:
    fixture = QueueFixture()
    fixture.receive(fixture.server.put("a", "Ada"))
    assert fixture.drain() == [("snapshot", 1, ["a"])]
    fixture.receive(fixture.server.put("b", "Bob"))
    fixture.receive(fixture.server.put("a", None))
    assert fixture.drain() == [("upsert", 1, ["b"]), ("remove", 1, ["a"])]
    assert fixture.drain() == []


def test_a_slow_reader_gets_a_snapshot_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = QueueFixture()
    fixture.drain()
    monkeypatch.setattr(change_queue, "_MAX_PENDING_BYTES", 200)
    for n in range(20):
        fixture.receive(fixture.server.put(f"{n % 3}", f"{n}"))
    ((kind, _, ids),) = fixture.drain()
    assert (kind, sorted(ids)) == ("snapshot", ["0", "1", "2"])
    fixture.receive(fixture.server.put("0", None))
    assert fixture.drain() == [("remove", 1, ["0"])]


def test_a_slow_reader_still_sees_a_cutover(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = QueueFixture()
    fixture.drain()
    monkeypatch.setattr(change_queue, "_MAX_PENDING_BYTES", 1)
    fixture.receive(fixture.server.cut_over(["x", "y"]))
    fixture.receive(fixture.server.put("2", "z"))
    fixture.receive(fixture.server.put("3", "z"))
    ((kind, generation, ids),) = fixture.drain()
    assert (kind, generation, sorted(ids)) == ("cutover", 2, ["0", "1", "2", "3"])


def test_a_cutover_discards_pending_changes() -> None:
    fixture = QueueFixture()
    fixture.drain()
    fixture.receive(fixture.server.put("a", "Ada"))
    fixture.receive(fixture.server.cut_over(["x"]))
    assert fixture.drain() == [("cutover", 2, ["0"])]
