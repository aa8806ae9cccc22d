"""D8: attacks take bounded memory and hardly delay other viewers."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from faults.test_viewers import GRAIN_S, p99, watched
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from rig import attack
from rig.figures import Figures
from rig.ledgered import Audience, FakeLeader
from rig.running import memory_kib

KINDS = ("handshakes", "loris", "frames", "bombs", "subscriptions", "sets")
ROWS = 100_000
SECONDS, RATE = 20, 50.0
GROWN_KIB = 150 << 10
SETS = 10  # minimum number of different sets of tables served to attackers


def test_d8_attacks_take_bounded_memory_and_delay_nobody(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    leader = FakeLeader(kafka, tmp_path, "d8")
    leader.set_live(leader.write_generation(1, ROWS))
    names = Names("d8")
    access_topics.create_topics(kafka, names)
    good, bad = (
        access_topics.create_token(kafka, names, "viewer", who, None) for who in ("good", "bad")
    )
    count = int(SECONDS * RATE)
    found: dict[str, float] = {}
    told: dict[str, Any] = {}
    with leader.server(http={"insecure": False}, token=good) as server:

        async def attacked(kind: str) -> None:
            # idle priority: on a separate machine, attackers would not use this CPU
            command = ["chrt", "--idle", "0", sys.executable, str(attack.__file__)]
            process = await asyncio.create_subprocess_exec(
                *command, kind, str(server.port), str(SECONDS), bad, stdout=asyncio.subprocess.PIPE
            )
            said, _ = await process.communicate()
            told[kind] = json.loads(said)

        async def look() -> int:
            audience = Audience(server)
            await audience.join(10, ("final_ui",))
            found["alone"] = p99(await watched(leader, audience, count, RATE))
            before = memory_kib(server.pid, "VmHWM")
            for kind in KINDS:
                took = await watched(leader, audience, count, RATE, attacked(kind))
                found[kind] = p99(took)
            grown = memory_kib(server.pid, "VmHWM") - before
            await audience.leave()
            return grown

        grown = asyncio.run(look())
    shown = ", ".join(f"{kind} {seconds * 1000:.0f} ms" for kind, seconds in found.items())
    case.landed(**{kind: one["done"] for kind, one in told.items()}).landed(viewers=10)
    served = told["sets"]["served"]
    case.note(f"p99 {shown}; memory grew by {grown >> 10} MiB; {served} sets of tables served")
    print(case.notes[-1], told)
    assert served >= SETS, "they were only refused"
    assert all(one["done"] and one["refused"] for one in told.values()), told
    assert grown < GROWN_KIB
    alone = max(found["alone"], GRAIN_S)
    for kind in KINDS:
        assert found[kind] <= 2 * alone, kind
