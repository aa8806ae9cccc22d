"""A cluster that limits topics: the largest inputs still fit, and larger ones are rejects."""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from rig.limited import BROKER_BYTES, limited_broker
from rig.running import until
from rig.world import (
    Do,
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    WaitOutcome,
    World,
    play,
    request_pair,
    run_world,
)

NAME = "known.limited"  # the policy refuses other names
LARGEST_BYTES = 504 << 10
# what JSON escapes, and what takes several bytes
CHARACTERS = '"\\\n\u0001é😀x'


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Kafka]:
    with limited_broker(tmp_path / "limited", {}) as kafka:
        yield kafka


def record(size: int, field: str, **more: Any) -> bytes:
    """A record of exactly this many bytes, most of them in one field."""
    found = _encoded({**more, field: ""})
    text = "".join(islice(cycle(CHARACTERS), size // 4))
    while len(_encoded({**more, field: text})) > size:
        text = text[: -max(1, (len(_encoded({**more, field: text})) - size) // 8)]
    text += "x" * (size - len(_encoded({**more, field: text})))
    found = _encoded({**more, field: text})
    assert len(found) == size
    return found


def _encoded(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()


def produce_largest(world: World, pair: str) -> None:
    """A user with an account, each as large as an input may be."""
    to = world.producers[pair]
    to.send("users", record(LARGEST_BYTES, "name", userId=f"{pair}-large"))
    to.send("accounts", record(LARGEST_BYTES, "accountType", userId=f"{pair}-large"))
    to.flush()


def reasons(world: World) -> list[str]:
    return [row["reason"] for row in world.live.table("rejects_ui").values()]


def test_a_user_fits_with_an_account_and_larger_records_are_rejects(
    limited: Kafka, tmp_path: Path
) -> None:
    """The first generation gets them by the stream, the second one by the batch job."""
    with run_world(limited, tmp_path / "run", NAME, spark={"history_records": 1}) as world:
        changelog = Names(NAME).changelog(1)
        assert limited.topic_config(changelog, "max.message.bytes") == str(BROKER_BYTES)
        assert "max.message.bytes must be at most 8388608" in world.live.log.read_text()
        play(world, [
            Do(lambda world: produce_largest(world, "a")), ExpectOracle("a"),
            Do(lambda world: produce_largest(world, "b")),
            request_pair(NAME, "b"), WaitOutcome("live"), ExpectLive("b"), ExpectOracle("b"),
        ])  # fmt: skip
        world.producers["b"].send("users", record(LARGEST_BYTES + 1, "name", userId="b-too-large"))
        world.producers["b"].flush()
        until(lambda: reasons(world), "the larger one is a reject")
        assert reasons(world) == [f"value: larger than 504 KiB, {LARGEST_BYTES + 1} bytes"]
        assert world.status()["state"] == "live"
        play(world, [ExpectNothingLeft()])
