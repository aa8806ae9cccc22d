"""What a topic's config says about the records that it keeps."""

import math

import pytest

from livejoin.kafka.clusters import same_clusters
from livejoin.kafka.topic_cleanup import Cleanup, age_text

ALL = Cleanup(is_compacted=False, keeps_s=math.inf, keeps_bytes=math.inf)


@pytest.mark.parametrize(
    ("config", "expected", "text"),
    [
        ({}, ALL, "keeps everything"),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
            ALL,
            "keeps everything",
        ),
        ({"retention.ms": "604800000"}, ALL._replace(keeps_s=604800), "keeps 7 d"),
        # a compacted topic that does not delete ignores its retention
        (
            {"cleanup.policy": "compact", "retention.ms": "60000"},
            ALL._replace(is_compacted=True),
            "compacted",
        ),
        (
            {"cleanup.policy": "compact, delete", "retention.ms": "60000"},
            ALL._replace(is_compacted=True, keeps_s=60),
            "compacted, keeps 1 min",
        ),
        (
            {"retention.ms": "5400000", "retention.bytes": "1048576"},
            ALL._replace(keeps_s=5400, keeps_bytes=1 << 20),
            "keeps 1.5 h, keeps 1,048,576 bytes of each partition",
        ),
    ],
)
def test_a_config_says_what_is_kept(config: dict[str, str], expected: Cleanup, text: str) -> None:
    assert Cleanup.of(config) == expected
    assert str(Cleanup.of(config)) == text


def test_durations_are_in_their_largest_unit() -> None:
    assert [age_text(s) for s in (0.5, 59, 60, 3600, 172800)] == [
        *("0.5 s", "59 s", "1 min", "1 h", "2 d")
    ]


def test_clusters_with_one_id_are_named_in_pairs() -> None:
    found = same_clusters({"kafka": "a", "kafka_data": "b", "kafka_control": "a"})
    (one,) = found
    assert one.what == (
        "kafka and kafka_control are one cluster (a) with different properties, which livejoin"
        " treats as two"
    )
    assert same_clusters({"kafka": None, "kafka_data": None}) == []  # brokers without ids
