"""Replica compared with a dictionary."""

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.modelled import FINAL, SCHEMAS, Rows, arrow, by_id, row, table_hash
from livejoin.client import replica as replicas
from livejoin.client.replica import Replica
from livejoin.errors import ProtocolViolation

IDS = st.sampled_from("abcdefgh")
BATCH = st.lists(st.tuples(IDS, st.none() | st.text()), max_size=8)
CHANGES = st.lists(st.one_of(BATCH, st.lists(IDS, max_size=4)), max_size=20)


def rows(*pairs: tuple[str, str | None]) -> pa.Table:
    return pa.Table.from_pylist([row(*pair) for pair in pairs], SCHEMAS[FINAL])


@pytest.mark.parametrize("spare", [0, 10_000], ids=["swept often", "swept never"])
@pytest.mark.parametrize("chunks", [1, 512], ids=["one chunk", "many"])
@given(first=BATCH, changes=CHANGES)
def test_it_behaves_like_a_dictionary(
    spare: int, chunks: int, first: list[tuple[str, str | None]], changes: list[list[object]]
) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(replicas, "_SPARE", spare)
        patched.setattr(replicas, "_MANY_CHUNKS", chunks)
        held, model = Replica(rows(*first)), by_id(rows(*first))
        for change in changes:
            if change and isinstance(change[0], str):
                ids = [one for one in change if isinstance(one, str)]
                held.remove(pa.table({"_id": pa.array(ids, pa.string())}))
                model = {row_id: one for row_id, one in model.items() if row_id not in ids}
            else:
                pairs = [one for one in change if isinstance(one, tuple)]
                held.upsert(rows(*pairs))
                model = _moved(model, by_id(rows(*pairs)))
            assert len(held) == len(model)
            assert held.hash == table_hash(arrow(FINAL, model))
        found = held.rows()
    assert found.schema == SCHEMAS[FINAL]
    assert by_id(found) == model


def _moved(model: Rows, new: Rows) -> Rows:
    return {**{row_id: one for row_id, one in model.items() if row_id not in new}, **new}


def test_returned_rows_never_change() -> None:
    held = Replica(rows(("a", "Ada"), ("b", "Bob")))
    before = held.rows()
    held.upsert(rows(("a", "Ada L.")))
    assert by_id(before)["a"]["name"] == "Ada"
    assert [one["_id"] for one in held.rows().to_pylist()] == ["b", "a"]  # the last changed is last


def test_changed_columns_need_a_snapshot() -> None:
    held = Replica(rows(("a", "Ada")))
    with pytest.raises(ProtocolViolation, match="columns"):
        held.upsert(pa.table({"_id": ["a"], "name": ["x"]}))


def test_two_hundred_thousand_rows_are_fast() -> None:
    count = 200_000
    ids = pa.array([f"0-{n}" for n in range(count)])
    names = pa.array([f"name {n}" for n in range(count)])
    stamps = pa.array([1000] * count, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    whole = pa.table([names, ids, stamps], SCHEMAS[FINAL])
    began = time.process_time()
    held = Replica(whole)
    assert held.hash == table_hash(whole)
    for n in range(200):
        held.upsert(rows((f"0-{n}", "new")))
    held.remove(pa.table({"_id": ids.slice(0, 100)}))
    assert held.rows().num_rows == len(held) == count - 100
    assert time.process_time() - began < 20  # 0.7 s when nobody else is busy
