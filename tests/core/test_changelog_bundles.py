"""Bundles: their text, and what they say row by row."""

import json

from hypothesis import given

from core.changelog_strategies import bundled
from livejoin.core import changelog, changelog_bundles
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.changelog_bundles import Bundle

ROWS = Bundle(
    "final_ui",
    ("0-1", "1-7"),
    50,
    (50, 0, 3),
    {"userId": "ada", "balance": 1.5},
    ({"ts": 40, "name": "Ada"}, {"ts": 60}),
)
KEY = b"bundle/final_ui/0-1"
REMOVALS = Bundle("final_ui", ("0-1", "1-7"), 50, (50, 0, 3))


def test_a_bundle_of_rows_has_a_line_for_each() -> None:
    assert ROWS.value().decode() == (
        '{"row":{"userId":"ada","balance":1.5},"ts":50,"version":[50,0,3],\n'
        '"ids":["0-1","1-7"],\n'
        '"rows":[\n'
        '{"ts":40,"name":"Ada"},\n'
        '{"ts":60}\n'
        "]}"
    )


def test_a_row_has_what_all_share_and_its_own_and_the_time_of_the_newer_of_both() -> None:
    version = (50, 0, 3)
    assert ROWS.records() == [
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
def test_a_bundle_is_json_and_reads_back(one: Bundle) -> None:
    json.loads(one.value())
    assert changelog_bundles.read_bundle(KEY, one.value()).records() == one.records()


def test_a_bundle_marks_nothing() -> None:
    assert changelog.marked_position(KEY) is None
    assert changelog.marked_offsets([KEY, b"users_ui/0-4"]) == {("users", 0): [4]}
