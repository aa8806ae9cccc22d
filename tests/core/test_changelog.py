import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.changelog_strategies import DATA, TEXT, TS, VERSIONS, bundled, changes
from livejoin.core import changelog, spec
from livejoin.core.changelog import ChangelogRecord, Position, Version
from rig.reference_changelog import (
    Bundle,
    ReferenceFollower,
    is_newer,
    pair_id,
    read_bundle,
    read_record,
)

OLD, NEW = (1, 0, 0), (2, 0, 0)


def _field(name: str) -> dict[str, str]:
    return {"name": name, "type": "string"}


def _without_nulls(change: ChangelogRecord) -> ChangelogRecord:
    if change.row is None:
        return change
    return replace(
        change, row={name: cell for name, cell in change.row.items() if cell is not None}
    )


@given(st.sampled_from(DATA).flatmap(changes))
def test_a_record_round_trips_without_its_nulls(
    change: ChangelogRecord,
) -> None:
    assert read_record(change.key(), change.value()) == _without_nulls(change)


@given(TEXT)
def test_a_row_id_can_be_any_text(row_id: str) -> None:
    change = ChangelogRecord(spec.FINAL, row_id, {}, 0)
    assert read_record(change.key(), change.value()) == change


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (
            ChangelogRecord("users_ui", "0-1", {"userId": "ä", "age": None}, 5),
            '{"row":{"userId":"ä"},"ts":5}',
        ),
        (ChangelogRecord("users_ui", "0-1", {}, 5), '{"row":{},"ts":5}'),
        (ChangelogRecord("final_ui", "0-1", None, 5), '{"ts":5}'),
        (ChangelogRecord("final_ui", "0-1", None, 5, (7, 1, 9)), '{"ts":5,"version":[7,1,9]}'),
        (
            ChangelogRecord("final_ui", "0-1", {"k": 1}, 7, versions={"pay": (7, 1, 9)}),
            '{"row":{"k":1},"ts":7,"versions":{"pay":[7,1,9]}}',
        ),
    ],
    ids=["a row", "a row of nulls", "a removal", "a removal with a version", "several lookups"],
)
def test_a_value_has_no_whitespace_nulls_or_escapes(change: ChangelogRecord, value: str) -> None:
    assert change.value() == value.encode()


def test_a_key_is_the_table_and_the_row_id() -> None:
    assert ChangelogRecord("rejects_ui", "users/0-1", {}, 5).key() == b"rejects_ui/users/0-1"


@pytest.mark.parametrize(
    ("key", "mark"),
    [
        ("users_ui/3-42", Position("users", 3, 42)),
        ("accounts_ui/0-9007199254740993", Position("accounts", 0, 9007199254740993)),
        ("rejects_ui/users/1-2", Position("users", 1, 2)),
        ("rejects_ui/accounts/1-2", Position("accounts", 1, 2)),
        ("tombstones/users/0-0", Position("users", 0, 0)),
        ("tombstones/accounts/12-7", Position("accounts", 12, 7)),
        ("final_ui/0-1", None),
        ("final_ui/0-1+0-2", None),
        ("a_table_of_tomorrow/0-1", None),
    ],
)
def test_only_its_own_row_reject_or_tombstone_marks_an_input_record(
    key: str, mark: Position | None
) -> None:
    assert changelog.marked_position(key.encode()) == mark


def test_marked_offsets_are_grouped_by_partition() -> None:
    keys = ["users_ui/0-7", "final_ui/0-7+1-2", "rejects_ui/users/0-9", "tombstones/accounts/1-3",
            "final_ui/0-7", "users_ui/0-8", "elsewhere/0-1", "users_ui/2-1",
            "feed/0-5"]  # fmt: skip
    marked = changelog.marked_offsets(key.encode() for key in keys)
    assert marked == {("users", 0): [7, 8, 9], ("accounts", 1): [3], ("users", 2): [1],
                     ("feed", 0): [5]}  # fmt: skip
    single = [mark for key in keys if (mark := changelog.marked_position(key.encode()))]
    assert sorted(
        Position(*place, offset) for place, offsets in marked.items() for offset in offsets
    ) == sorted(single)


def test_a_pair_id_contains_both_positions() -> None:
    assert pair_id(Position("users", 0, 1), Position("accounts", 2, 3)) == "0-1+2-3"


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        (None, None, False),
        (None, OLD, False),
        (OLD, None, True),
        (OLD, OLD, False),
        (OLD, NEW, False),
        (NEW, OLD, True),
        ((1, 1, 0), (1, 0, 9), True),
        ((1, 0, 1), (1, 0, 0), True),
        ((1, 0, 10), (1, 0, 9), True),
        ((-1, 0, 0), None, True),
    ],
)
def test_versions_are_ordered_by_timestamp_partition_and_offset(
    version: Version, than: Version, *, expected: bool
) -> None:
    assert is_newer(version, than) is expected


def _row(name: str, version: Version = None) -> ChangelogRecord:
    return ChangelogRecord("final_ui", "0-1", {"name": name}, 0, version)


def _removal(version: Version = None) -> ChangelogRecord:
    return ChangelogRecord("final_ui", "0-1", None, 0, version)


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        ([], None),
        ([_row("a")], "a"),
        ([_row("a"), _row("b")], "a"),
        ([_row("a"), _row("b", OLD)], "b"),
        ([_row("b", OLD), _row("a")], "b"),
        ([_row("b", OLD), _row("c", NEW)], "c"),
        ([_row("c", NEW), _row("b", OLD)], "c"),
        ([_row("a"), _removal(OLD)], None),
        ([_removal(OLD), _row("a")], None),
        ([_removal(NEW), _row("b", OLD)], None),
        ([_removal(OLD), _row("c", NEW)], "c"),
        ([_row("a"), _removal()], "a"),
    ],
    ids=[
        "nothing",
        "a row",
        "without versions the first stays",
        "a version replaces a row without one",
        "a row without a version replaces nothing",
        "newer replaces older",
        "older replaces nothing",
        "a removal removes",
        "a removal is remembered when the row comes later",
        "a removal is remembered against older versions",
        "a row newer than its removal is shown",
        "a removal without a version removes no existing row",
    ],
)
def test_a_follower_shows_the_newest_version(
    history: list[ChangelogRecord], shown: str | None
) -> None:
    follower = ReferenceFollower()
    for change in history:
        follower.apply(change)
    assert follower.table("final_ui") == ({} if shown is None else {"0-1": {"name": shown}})


def test_a_follower_keeps_tables_separate() -> None:
    follower = ReferenceFollower()
    follower.apply(ChangelogRecord("users_ui", "0-1", {"name": "user"}, 0))
    follower.apply(ChangelogRecord("accounts_ui", "0-1", {"balance": 1.0}, 0))
    assert follower.table("users_ui") == {"0-1": {"name": "user"}}
    assert follower.table("accounts_ui") == {"0-1": {"balance": 1.0}}


@st.composite
def _replays(draw: st.DrawFn) -> tuple[list[ChangelogRecord], list[ChangelogRecord]]:
    """A history in which a version determines the row, and a reordered copy with duplicates."""
    keys = st.tuples(st.sampled_from("abc"), VERSIONS)
    contents = st.tuples(st.none() | TEXT, TS)
    versions = draw(st.dictionaries(keys, contents))
    history = [
        ChangelogRecord("final_ui", row_id, None if name is None else {"name": name}, ts, version)
        for (row_id, version), (name, ts) in versions.items()
    ]
    duplicates = draw(st.lists(st.sampled_from(history))) if history else []
    return history, draw(st.permutations(history + duplicates))


@given(_replays())
def test_a_reordered_replay_with_duplicates_gives_the_same_rows(
    replays: tuple[list[ChangelogRecord], list[ChangelogRecord]],
) -> None:
    ends: list[Mapping[str, Mapping[str, Any]]] = []
    for history in replays:
        follower = ReferenceFollower()
        for change in history:
            follower.apply(change)
        ends.append(follower.table("final_ui"))
    assert ends[0] == ends[1]


BUNDLE = Bundle(
    "final_ui",
    ("0-1", "1-7"),
    50,
    (50, 0, 3),
    {"userId": "ada", "balance": 1.5},
    ({"ts": 40, "name": "Ada"}, {"ts": 60}),
)
BUNDLE_KEY = b"bundle/final_ui/0-1"
REMOVALS = Bundle("final_ui", ("0-1", "1-7"), 50, (50, 0, 3))


def test_a_bundle_has_one_line_per_row() -> None:
    assert BUNDLE.value().decode() == (
        '{"row":{"userId":"ada","balance":1.5},"ts":50,"version":[50,0,3],\n'
        '"ids":["0-1","1-7"],\n'
        '"rows":[\n'
        '{"ts":40,"name":"Ada"},\n'
        '{"ts":60}\n'
        "]}"
    )


def test_a_bundled_row_has_shared_and_own_cells_and_the_newer_timestamp() -> None:
    version = (50, 0, 3)
    assert BUNDLE.records() == [
        ChangelogRecord(
            "final_ui", "0-1", {"userId": "ada", "balance": 1.5, "name": "Ada"}, 50, version
        ),
        ChangelogRecord("final_ui", "1-7", {"userId": "ada", "balance": 1.5}, 60, version),
    ]


def test_a_bundle_of_removals_has_no_rows() -> None:
    assert REMOVALS.value() == b'{"ts":50,"version":[50,0,3],\n"ids":["0-1","1-7"]}'
    assert REMOVALS.records() == [
        ChangelogRecord("final_ui", row_id, None, 50, (50, 0, 3)) for row_id in ("0-1", "1-7")
    ]


@given(bundled())
def test_a_bundle_is_json_and_round_trips(bundle: Bundle) -> None:
    json.loads(bundle.value())
    assert read_bundle(BUNDLE_KEY, bundle.value()).records() == bundle.records()


def test_a_bundle_key_is_not_a_mark() -> None:
    assert changelog.marked_position(BUNDLE_KEY) is None
    assert changelog.marked_offsets([BUNDLE_KEY, b"users_ui/0-4"]) == {("users", 0): [4]}


# --- several lookups

_SPEC = spec.JoinSpec.from_json(
    {
        "sources": [
            {"name": "orders", "key": "customer", "fields": [_field("customer"), _field("state")]},
            {"name": "customers", "key": "id", "fields": [_field("id"), _field("name")]},
            {"name": "payments", "key": "by", "fields": [_field("by"), _field("state")]},
        ]
    }
)
_COLUMNS = {"customers": ["name"], "payments": ["payments_state"]}


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(1, 4))] * 2), min_size=1), st.data())
def test_rows_of_several_lookups_are_the_same_in_every_order(
    shown: list[tuple[int | None, int | None]], data: st.DataObject
) -> None:
    """A row shows any version of each lookup; the newest of each one is in the end."""
    changes = []
    for numbers in shown:
        row, versions = {"customer": "c", "state": "new"}, {}
        for (lookup, (column,)), number in zip(_COLUMNS.items(), numbers, strict=True):
            if number is not None:
                versions[lookup] = (number, 0, 0)
                row |= {column: f"{lookup}{number}"} if number > 1 else {}  # null in the first one
        changes.append(
            ChangelogRecord(
                spec.FINAL, "0-1", row, max(filter(None, (*numbers, 1))), versions=versions
            )
        )
    follower = ReferenceFollower(_COLUMNS)
    for change in data.draw(st.permutations(changes * 2)):
        follower.apply(change)
    expected = {"customer": "c", "state": "new"}
    for at, (lookup, (column,)) in enumerate(_COLUMNS.items()):
        newest = max(numbers[at] or 0 for numbers in shown)
        expected |= {column: f"{lookup}{newest}"} if newest > 1 else {}
    assert follower.table(spec.FINAL) == {"0-1": expected}


def test_a_topic_of_format_2_says_what_it_contains() -> None:
    key, value = changelog.format_record(_SPEC, "left")
    assert key == b"format"
    said = json.loads(value)
    assert said.pop("columns") == {
        "orders": ["customer", "state"],
        "customers": ["customer", "name"],
        "payments": ["customer", "payments_state"],
    }
    assert said == {"format": 2, "join": "left", **_SPEC.to_json()}
    assert changelog.format_number(spec.DEFAULT) == 1
    assert changelog.marked_position(key) is None
