"""The replica compared with a dictionary."""

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


@pytest.mark.parametrize("spare", [0, 10_000], ids=["compacted often", "never compacted"])
@pytest.mark.parametrize("chunks", [1, 512], ids=["one chunk", "many"])
@given(first=BATCH, changes=CHANGES)
def test_it_behaves_like_a_dictionary(
    spare: int, chunks: int, first: list[tuple[str, str | None]], changes: list[list[object]]
) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(replicas, "_SPARE", spare)
        patched.setattr(replicas, "_MANY_CHUNKS", chunks)
        replica, model = Replica(rows(*first)), by_id(rows(*first))
        for change in changes:
            if change and isinstance(change[0], str):
                ids = [item for item in change if isinstance(item, str)]
                replica.remove(pa.table({"_id": pa.array(ids, pa.string())}))
                model = {row_id: item for row_id, item in model.items() if row_id not in ids}
            else:
                pairs = [item for item in change if isinstance(item, tuple)]
                replica.upsert(rows(*pairs))
                model = _upserted(model, by_id(rows(*pairs)))
            assert len(replica) == len(model)
            assert replica.hash == table_hash(arrow(FINAL, model))
        result = replica.rows()
    assert result.schema == SCHEMAS[FINAL]
    assert by_id(result) == model


def _upserted(model: Rows, new: Rows) -> Rows:
    return {**{row_id: item for row_id, item in model.items() if row_id not in new}, **new}


def test_returned_rows_never_change() -> None:
    replica = Replica(rows(("a", "Ada"), ("b", "Bob")))
    before = replica.rows()
    replica.upsert(rows(("a", "Ada L.")))
    assert by_id(before)["a"]["name"] == "Ada"
    assert [item["_id"] for item in replica.rows().to_pylist()] == [
        "b",
        "a",
    ]  # in the order of the last change


def test_changed_columns_need_a_snapshot() -> None:
    replica = Replica(rows(("a", "Ada")))
    with pytest.raises(ProtocolViolation, match="columns"):
        replica.upsert(pa.table({"_id": ["a"], "name": ["x"]}))


def test_two_hundred_thousand_rows_are_fast() -> None:
    count = 200_000
    ids = pa.array([f"0-{n}" for n in range(count)])
    names = pa.array([f"name {n}" for n in range(count)])
    stamps = pa.array([1000] * count, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    all_rows = pa.table([names, ids, stamps], SCHEMAS[FINAL])
    started = time.process_time()
    replica = Replica(all_rows)
    assert replica.hash == table_hash(all_rows)
    for n in range(200):
        replica.upsert(rows((f"0-{n}", "new")))
    replica.remove(pa.table({"_id": ids.slice(0, 100)}))
    assert replica.rows().num_rows == len(replica) == count - 100
    assert time.process_time() - started < 20  # 0.7 s on an idle machine
