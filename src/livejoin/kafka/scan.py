"""Scans a topic from a position in each partition, towards older or newer records, within limits.

Records of all partitions are put in one order: by timestamp, within a partition by offset. What a
scan has covered is one range of offsets per partition, without a hole: another scan can go on at
either end.
"""

import math
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from confluent_kafka import Consumer

from livejoin.kafka.range_reader import RangeReader, ScanLimits, ScannedRecord
from livejoin.kafka.records import OffsetRange

_GROWTH = 16  # of the step backwards, from one to the next


@dataclass(frozen=True)
class Wanted:
    """Which records, and how many of them, are looked for; until nobody waits for them."""

    count: int
    limits: ScanLimits
    matches: Callable[[ScannedRecord], bool] = lambda _: True
    cancelled: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class ScanResult:
    """What a scan found, in its direction, and what it covered."""

    found: list[ScannedRecord]
    covered: Mapping[int, OffsetRange]
    scanned: int  # records read, matching or not
    reached_ms: int | None  # everything up to this time was covered; None: all there is
    complete: bool  # False: a limit was reached before `count` records were found


def scan_older(
    consumer: Consumer, topic: str, ranges: Mapping[int, OffsetRange], wanted: Wanted
) -> ScanResult:
    """The newest matching records of these ranges, newest first.

    Kafka reads forward only: steps backwards, each larger than the one before, are read one by one.
    A step that was not read whole is dropped.
    """
    reader = RangeReader(consumer, topic, wanted.limits, wanted.cancelled)
    low = {p: offsets.end for p, offsets in ranges.items()}
    kept: dict[int, list[ScannedRecord]] = {p: [] for p in ranges}
    truncated: set[int] = set()
    oldest = dict.fromkeys(ranges, math.inf)
    step, complete = wanted.count, True
    while left := _unsettled(ranges, low, oldest, kept, wanted.count):
        parts = {p: OffsetRange(max(ranges[p].start, low[p] - step), low[p]) for p in left}
        found, times = _read_step(reader, parts, wanted)
        for p in parts.keys() - reader.unfinished:
            matching = [*found[p], *kept[p]]
            kept[p] = matching[-wanted.count :]
            truncated |= {p} if len(matching) > wanted.count else set()
            low[p], oldest[p] = parts[p].start, times.get(p, oldest[p])
        if not reader.unfinished:
            read = sum(offsets.end - low[p] for p, offsets in ranges.items())
            step = int(min(step * _GROWTH, read * reader.remaining_share() / len(left)))
        elif reader.unfinished == parts.keys() and step > 1 and reader.retry():
            step = max(1, step // _GROWTH)  # the records are large, or denser than before
        else:
            step = 0
        if step < 1:
            complete = not _unsettled(ranges, low, oldest, kept, wanted.count)
            break
    chosen = _in_order(kept.values())[-wanted.count :][::-1]
    lowest = {p: _lowest(kept[p], chosen, low[p], cut=p in truncated) for p in ranges}
    reached = [oldest[p] for p in ranges if low[p] > ranges[p].start]
    return ScanResult(
        chosen,
        {p: OffsetRange(lowest[p], ranges[p].end) for p in ranges},
        reader.scanned,
        int(max(reached)) if reached and max(reached) < math.inf else None,
        complete,
    )


def scan_newer(
    consumer: Consumer, topic: str, ranges: Mapping[int, OffsetRange], wanted: Wanted
) -> ScanResult:
    """The oldest matching records of these ranges, oldest first."""
    reader = RangeReader(consumer, topic, wanted.limits, wanted.cancelled)
    high = {p: offsets.start for p, offsets in ranges.items()}
    newest = dict.fromkeys(ranges, -1)
    kept: dict[int, list[ScannedRecord]] = {p: [] for p in ranges}
    times: list[int] = []  # of all matching records, sorted
    for record in reader.read({p: r for p, r in ranges.items() if r.end > r.start}):
        p = record.partition
        high[p], newest[p] = record.offset + 1, record.time
        if wanted.matches(record):
            kept[p].append(record)
            insort(times, record.time)
        enough = len(times) >= wanted.count and record.time >= times[wanted.count - 1]
        if enough or len(kept[p]) >= wanted.count:
            reader.finish(p)
    high |= {p: ranges[p].end for p in reader.at_end}
    chosen = _in_order(kept.values())[: wanted.count]
    reached = [newest[p] for p in ranges if high[p] < ranges[p].end]
    return ScanResult(
        chosen,
        {p: OffsetRange(ranges[p].start, _highest(kept[p], chosen, high[p])) for p in ranges},
        reader.scanned,
        min(reached) if reached and min(reached) >= 0 else None,
        not reader.unfinished,
    )


def _unsettled(
    ranges: Mapping[int, OffsetRange],
    low: Mapping[int, int],
    oldest: Mapping[int, float],
    kept: Mapping[int, Sequence[ScannedRecord]],
    count: int,
) -> list[int]:
    """The partitions that may have newer matching records than those found so far."""
    times = sorted(record.time for records in kept.values() for record in records)
    bound = times[-count] if len(times) >= count else -math.inf
    return [
        p
        for p, offsets in ranges.items()
        if low[p] > offsets.start and len(kept[p]) < count and oldest[p] > bound
    ]


def _read_step(
    reader: RangeReader, parts: Mapping[int, OffsetRange], wanted: Wanted
) -> tuple[dict[int, list[ScannedRecord]], dict[int, int]]:
    """The last matching records of each part, and the timestamp of its first record."""
    found: dict[int, list[ScannedRecord]] = {p: [] for p in parts}
    times: dict[int, int] = {}
    for record in reader.read(parts):
        times.setdefault(record.partition, record.time)
        if wanted.matches(record):
            matching = found[record.partition]
            matching.append(record)
            if len(matching) > 2 * wanted.count:  # one more than wanted tells that there are more
                del matching[: -wanted.count - 1]
    return found, times


def _in_order(partitions: Iterable[Sequence[ScannedRecord]]) -> list[ScannedRecord]:
    """The records of all partitions, oldest first; those of one partition by offset.

    A record counts as new as the newest one before it in its partition.
    """
    keyed = [
        (at, record)
        for records in partitions
        for at, record in zip(
            accumulate((record.time for record in records), max), records, strict=True
        )
    ]
    keyed.sort(key=lambda one: (one[0], one[1].partition, one[1].offset))
    return [record for _, record in keyed]


def _lowest(
    kept: Sequence[ScannedRecord], chosen: Iterable[ScannedRecord], low: int, *, cut: bool
) -> int:
    """The offset below which nothing was covered, or something was left for the next scan."""
    others = _others(kept, chosen)
    if others:
        return others[-1] + 1
    return kept[0].offset if cut else low


def _highest(kept: Sequence[ScannedRecord], chosen: Iterable[ScannedRecord], high: int) -> int:
    return next(iter(_others(kept, chosen)), high)


def _others(kept: Sequence[ScannedRecord], chosen: Iterable[ScannedRecord]) -> list[int]:
    """Offsets of the records of one partition that were not chosen."""
    positions = {(record.partition, record.offset) for record in chosen}
    return [one.offset for one in kept if (one.partition, one.offset) not in positions]
