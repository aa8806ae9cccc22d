"""A table that grows beyond `max_rows`."""

from pathlib import Path

from livejoin.kafka import Kafka
from rig.running import COLD, until
from rig.world import Produce, WaitOutcome, play, to_pair, world

MOST = 300
LARGE = f"has more than {MOST} rows in accounts_ui, which is max_rows"


def test_more_rows_than_the_limit_fail_a_generation_and_its_last_rows_stay(
    kafka: Kafka, tmp_path: Path
) -> None:
    with world(kafka, tmp_path, "limits", max_rows=MOST, spark={"conf": COLD}) as one:
        play(one, [Produce("a", 2 * MOST)])  # more accounts than users
        until(lambda: one.status()["state"] == "failed", "the live generation fails")
        status = one.status()
        assert LARGE in status["message"]
        assert LARGE in status["stale"]
        assert len(one.live.table("accounts_ui")) > MOST, "its last rows stay"
        play(one, [to_pair(one.name, "b"), WaitOutcome("live")])
        assert one.status()["state"] == "live"
