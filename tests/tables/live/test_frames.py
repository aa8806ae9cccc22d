import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.changelog_strategies import TEXT
from livejoin.core import format_versions
from livejoin.tables.live import frames
from livejoin.tables.live.frames import EncodedPart
from rig import protocol
from tables.samples import chunk, plain, user

PARTS = st.builds(
    EncodedPart,
    st.sampled_from(["users_ui", "final_ui"]),
    st.sampled_from(["snapshot", "upsert", "remove"]),
    st.binary(),
)
HEADERS = st.dictionaries(TEXT.filter(lambda name: name != "parts"), TEXT | st.integers())


@given(HEADERS, st.lists(PARTS))
def test_a_parsed_frame_equals_the_encoded_one(
    header: dict[str, str | int], parts: list[EncodedPart]
) -> None:
    read, decoded_parts = protocol.parse_frame(frames.encode_frame(header, parts))
    listed_parts = read.pop("parts")
    assert read == {"format": format_versions.LIVE, **header}
    assert decoded_parts == [(p.table, p.kind, p.payload) for p in parts]
    assert listed_parts == [
        {"table": p.table, "kind": p.kind, "bytes": len(p.payload)} for p in parts
    ]


def test_a_frame_is_a_length_a_header_and_the_payloads() -> None:
    data = frames.encode_frame(
        {"type": "data"}, [EncodedPart("a", "upsert", b"12"), EncodedPart("b", "remove", b"345")]
    )
    size = int.from_bytes(data[:4], "big")
    assert json.loads(data[4 : 4 + size].decode()) == {
        "format": 1,
        "type": "data",
        "parts": [
            {"table": "a", "kind": "upsert", "bytes": 2},
            {"table": "b", "kind": "remove", "bytes": 3},
        ],
    }
    assert data[4 + size :] == b"12345"


@pytest.mark.parametrize("as_table", [True, False], ids=["a table", "a batch"])
def test_rows_are_encoded_as_an_arrow_stream(*, as_table: bool) -> None:
    batch = chunk(1, 2, user(0, name="ä€😀", age=2**63 - 1), user(1)).batches[0][1].rows
    rows = pa.Table.from_batches([batch]) if as_table else batch
    part = frames.encode_rows("users_ui", "snapshot", rows)
    with pa.ipc.open_stream(part.payload) as stream:
        decoded_parts = stream.read_all()
    assert decoded_parts.schema == batch.schema
    assert plain(decoded_parts) == plain(batch)


def test_a_removal_lists_ids() -> None:
    part = frames.encode_removal("final_ui", ["0-1", "0-2+0-3"])
    with pa.ipc.open_stream(part.payload) as stream:
        assert stream.read_all().to_pydict() == {"_id": ["0-1", "0-2+0-3"]}
    assert (part.table, part.kind) == ("final_ui", "remove")
