"""How long changes take to viewers of a table server that follows a staged leader."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from rig.ledgered import Audience, FakeLeader, row

GRAIN_S = 0.02  # two frames; below that, differences do not count
_LIMIT_S = 120


def p99(samples: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(samples)[int(len(samples) * 0.99)]


async def send_changes(
    leader: FakeLeader, count: int, rate: float, text: str = "changed", row_from: int = 0
) -> list[float]:
    """Change a thousand rows in turn at a steady rate; returns the time of each change."""
    sent = []
    started = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
        sent.append(time.monotonic())
        # a higher version than any before
        leader.write(1, row("final_ui", row_from + number % 1000, text, leader.ends[1]))
        await asyncio.to_thread(leader.flush)
    return sent


async def delays_of_changes(
    leader: FakeLeader,
    audience: Audience,
    count: int,
    rate: float,
    *others: Awaitable[Any],
    **changes: Any,
) -> list[float]:
    """Return the seconds from sending each change to its arrival at each viewer."""
    first = leader.ends[1]
    sent, _, *_ = await asyncio.gather(
        send_changes(leader, count, rate, **changes),
        audience.watch(first + count, count / rate + _LIMIT_S),
        *others,
    )
    return audience.delays_s(first, sent)
