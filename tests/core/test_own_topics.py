"""What own topics need, what a refusal leaves of a request, and how large records may be."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core import changelog, own_topics
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules, TopicRequest

RULES = OwnTopicRules(config={"changelog": {"segment.ms": "60"}})
REQUEST = TopicRequest(RULES.config_of("changelog"), 3)
NEEDED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}
SIZE = {"max.message.bytes": str(16 << 20)}
SEGMENT = {"segment.ms": "60"}


def test_every_kind_has_what_it_needs() -> None:
    rules = OwnTopicRules()
    assert dict(REQUEST.config) == {**NEEDED, **SIZE, **SEGMENT}
    assert rules.config_of("ledger") == {"cleanup.policy": "compact"}
    assert rules.config_of("feed") == {"cleanup.policy": "delete", "retention.ms": "-1", **SIZE}
    assert rules.config_of("replies") == {}


def test_settings_add_replace_and_remove() -> None:
    rules = OwnTopicRules(
        max_message_bytes=1 << 20,
        config={"feed": {"retention.ms": "", "segment.ms": "7"}, "logs": {"retention.ms": "5"}},
    )
    expected = {"cleanup.policy": "delete", "segment.ms": "7", "max.message.bytes": "1048576"}
    assert rules.config_of("feed") == expected
    assert rules.config_of("logs") == {"retention.bytes": str(64 << 20), "retention.ms": "5"}


def test_all_topics_but_those_of_generations_last() -> None:
    topics = own_topics.lasting_topics(Names("x"), "control")
    every = set(own_topics.PER_GENERATION) | topics.keys()
    assert every == set(get_args(own_topics.Kind))
    assert all(Names("x").is_own(topic) for topic in topics.values() if topic != "control")


@pytest.mark.parametrize(
    ("why", "config", "replication"),
    [
        ("max.message.bytes is over 8 MiB", {**NEEDED, **SEGMENT}, 3),
        ("Policy: segment.ms.", {**NEEDED, **SIZE}, 3),
        ("max.message.bytes=1, segment.ms=2", NEEDED, 3),
        ("The replication factor must be 2", {**NEEDED, **SIZE, **SEGMENT}, -1),
        ("replication.factor and segment.ms", {**NEEDED, **SIZE}, -1),
        ("ask the platform team", NEEDED, -1),
        ("delete.segment.ms, segment.ms.x and segment.ms-x are others", NEEDED, -1),
        # a policy that quotes the whole request has not named what is needed alone
        ("in {cleanup.policy=compact, segment.ms=60}", {**NEEDED, **SIZE}, 3),
    ],
)
def test_a_retry_leaves_to_the_broker_what_it_named(
    why: str, config: dict[str, str], replication: int
) -> None:
    assert own_topics.with_defaults(REQUEST, why) == TopicRequest(config, replication)


@pytest.mark.parametrize("why", ["cleanup.policy must be delete", "no", "replication factor"])
def test_nothing_is_left_to_try_without_anything_optional(why: str) -> None:
    assert own_topics.with_defaults(TopicRequest(NEEDED, -1), why) is None


def test_the_needed_settings_that_a_refusal_is_about_are_named() -> None:
    named = own_topics.needed_settings(REQUEST, "min.compaction.lag.ms is not allowed")
    assert named == "min.compaction.lag.ms=3600000"
    unnamed = own_topics.needed_settings(REQUEST, "no")
    assert unnamed == "cleanup.policy=compact, min.compaction.lag.ms=3600000, one partition"
    assert own_topics.needed_settings(TopicRequest({}, -1), "no") == "one partition"


@pytest.mark.parametrize(
    ("topic", "value", "text"),
    [
        (16 << 20, 1 << 20, "1 MiB"),
        (64 << 20, 1 << 20, "1 MiB"),
        (8 << 20, 1 << 20, "1 MiB"),
        (1048588, 504 << 10, "504 KiB"),  # Kafka's default
        (own_topics.MIN_RECORD_BYTES, 24 << 10, "24 KiB"),
    ],
)
def test_the_largest_value_follows_from_the_size_of_topics(
    topic: int, value: int, text: str
) -> None:
    assert own_topics.record_limits(topic).value_bytes == value
    assert own_topics.size_text(value) == text


def test_a_full_bundle_fits() -> None:
    longest_id = "2147483647-9223372036854775807+2147483647-9223372036854775807"
    own = '{"ts":1700000000000' + "x" * changelog.BUNDLE_MAX_PART_BYTES + "}"
    per_row = len(f'"{longest_id}",') + len(own + changelog.BUNDLE_NEXT)
    for size in (own_topics.MIN_RECORD_BYTES, 1 << 20, 8 << 20, 16 << 20):
        rows = own_topics.record_limits(size).bundle_rows
        assert 1 <= rows <= changelog.BUNDLE_MAX_ROWS
        assert rows * per_row + changelog.BUNDLE_MAX_PART_BYTES + 1024 < size
    assert own_topics.record_limits(8 << 20).bundle_rows == changelog.BUNDLE_MAX_ROWS


CELLS = st.one_of(
    st.text(max_size=60),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


def _row(value: str, kinds: dict[str, type]) -> dict[str, Any]:
    """The cells of a record; a string field keeps the spelling of a number, with quotes."""
    cells = {}
    for name, cell in json.loads(value).items():
        is_text = kinds[name] is str and not isinstance(cell, str)
        cells[name] = json.dumps(cell) if is_text else cell
    return cells


@given(
    user=st.fixed_dictionaries(
        {"userId": CELLS, "name": CELLS, "email": CELLS, "age": st.integers()}
    ),
    account=st.fixed_dictionaries({"accountType": CELLS, "balance": st.integers(-(10**9), 10**9)}),
    escaped=st.booleans(),
)
def test_a_user_with_an_account_is_hardly_larger_than_both_values(
    user: dict[str, Any], account: dict[str, Any], *, escaped: bool
) -> None:
    values = [
        json.dumps(one, ensure_ascii=escaped, separators=(",", ":")) for one in (user, account)
    ]
    kinds: dict[str, type] = {**dict.fromkeys(("userId", "name", "email", "accountType"), str),
                              "age": int, "balance": float}  # fmt: skip
    row: dict[str, Any] = {}
    for value in values:
        row |= {n: c if kinds[n] is not float else float(c) for n, c in _row(value, kinds).items()}
    record = ChangelogRecord(
        "final_ui", "9-9", row, 1_700_000_000_000, (1_700_000_000_000, 2**31 - 1, 2**63 - 1)
    )
    size = len(record.key()) + len(record.value())
    assert size <= sum(len(value.encode()) for value in values) + 1024
