"""Pending changes of one iterator."""

import pytest

from client.modelled import FINAL, STATUS, ServerModel
from livejoin.client import change_queue
from livejoin.client.change_queue import ChangeQueue
from livejoin.client.protocol import Change, ClientSession


class Fed:
    """A session whose changes go to one queue."""

    def __init__(self) -> None:
        self.server, self.session, self.feed = (
            ServerModel(),
            ClientSession(STATUS, FINAL),
            ChangeQueue(FINAL),
        )
        self.give(self.server.answer(self.session.connected()))

    def give(self, data: bytes) -> None:
        for event in self.session.receive(data, 1.0):
            assert isinstance(event, Change)
            self.feed.put(event)

    def taken(self) -> list[tuple[str, int | None, list[str]]]:
        found: list[tuple[str, int | None, list[str]]] = []
        while (change := self.feed.get(self.session)) is not None:
            ids = change.rows.column("_id").to_pylist()
            found.append((change.kind, change.generation, ids))
        return found


def test_it_is_empty_before_the_first_frame() -> None:
    assert ChangeQueue(FINAL).get(ClientSession(FINAL)) is None


def test_it_yields_a_snapshot_then_changes_in_order() -> None:
    fed = Fed()
    fed.give(fed.server.put("a", "Ada"))
    assert fed.taken() == [("snapshot", 1, ["a"])]
    fed.give(fed.server.put("b", "Bob"))
    fed.give(fed.server.put("a", None))
    assert fed.taken() == [("upsert", 1, ["b"]), ("remove", 1, ["a"])]
    assert fed.taken() == []


def test_a_slow_reader_gets_a_snapshot_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed()
    fed.taken()
    monkeypatch.setattr(change_queue, "_MAX_PENDING_BYTES", 200)
    for n in range(20):
        fed.give(fed.server.put(f"{n % 3}", f"{n}"))
    ((kind, _, ids),) = fed.taken()
    assert (kind, sorted(ids)) == ("snapshot", ["0", "1", "2"])
    fed.give(fed.server.put("0", None))
    assert fed.taken() == [("remove", 1, ["0"])]


def test_a_slow_reader_still_sees_a_cutover(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed()
    fed.taken()
    monkeypatch.setattr(change_queue, "_MAX_PENDING_BYTES", 1)
    fed.give(fed.server.cut_over(["x", "y"]))
    fed.give(fed.server.put("2", "z"))
    fed.give(fed.server.put("3", "z"))
    ((kind, generation, ids),) = fed.taken()
    assert (kind, generation, sorted(ids)) == ("cutover", 2, ["0", "1", "2", "3"])


def test_a_cutover_discards_pending_changes() -> None:
    fed = Fed()
    fed.taken()
    fed.give(fed.server.put("a", "Ada"))
    fed.give(fed.server.cut_over(["x"]))
    assert fed.taken() == [("cutover", 2, ["0"])]
