"""Counts the frames sent to viewers, and how long the oldest change in each had waited."""

from bisect import bisect_left

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class DeliveryStats:
    """Counters of one server. A frame sent to two viewers counts twice."""

    def __init__(self) -> None:
        self.frames = 0
        self.total_wait_s = 0.0
        self._counts = [0] * (len(BUCKETS_S) + 1)

    def record_frame(self, waited_s: float | None = None) -> None:
        """Count a frame; `waited_s` is the age of its first change, if it carries any."""
        self.frames += 1
        if waited_s is not None:
            self.total_wait_s += waited_s
            self._counts[bisect_left(BUCKETS_S, waited_s)] += 1

    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative counts by upper bound, as Prometheus expects them."""
        buckets, total = [], 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets
