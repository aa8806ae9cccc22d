"""What went out to viewers: how many frames, and how long the oldest change in each had waited."""

from bisect import bisect_left

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class DeliveryStats:
    """Counts of one server. A frame for two viewers is two."""

    def __init__(self) -> None:
        self.frames = 0
        self.total_wait_s = 0.0
        self._counts = [0] * (len(BUCKETS_S) + 1)

    def record_frame(self, waited_s: float | None = None) -> None:
        """One was sent; how long its first change had waited, where it carries changes."""
        self.frames += 1
        if waited_s is not None:
            self.total_wait_s += waited_s
            self._counts[bisect_left(BUCKETS_S, waited_s)] += 1

    def buckets(self) -> list[tuple[str, int]]:
        """How many had waited no longer than each bound, as Prometheus counts."""
        found, so_far = [], 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found
