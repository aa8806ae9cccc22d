"""D8: attacks take bounded memory and hardly delay other viewers."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from rig import attack
from rig.delays import GRAIN_S, delays_of_changes, p99
from rig.figures import Figures
from rig.ledgered import Audience, FakeLeader
from rig.running import memory_kib

KINDS = ("handshakes", "loris", "frames", "bombs", "subscriptions", "sets")
ROWS = 100_000
SECONDS, RATE = 20, 50.0
MAX_GROWTH_KIB = 150 << 10
MIN_SETS = 10  # minimum number of different sets of tables served to attackers


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
    p99_by_kind: dict[str, float] = {}
    results: dict[str, Any] = {}
    with leader.server(http={"insecure": False}, token=good) as server:

        async def run_attack(kind: str) -> None:
            # idle priority: on a separate machine, attackers would not use this CPU
            command = ["chrt", "--idle", "0", sys.executable, str(attack.__file__)]
            process = await asyncio.create_subprocess_exec(
                *command, kind, str(server.port), str(SECONDS), bad, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            results[kind] = json.loads(output)

        async def scenario() -> int:
            audience = Audience(server)
            await audience.join(10, ("final_ui",))
            p99_by_kind["alone"] = p99(await delays_of_changes(leader, audience, count, RATE))
            before = memory_kib(server.pid, "VmHWM")
            for kind in KINDS:
                took = await delays_of_changes(leader, audience, count, RATE, run_attack(kind))
                p99_by_kind[kind] = p99(took)
            grown_kib = memory_kib(server.pid, "VmHWM") - before
            await audience.leave()
            return grown_kib

        grown_kib = asyncio.run(scenario())
    summary = ", ".join(f"{kind} {seconds * 1000:.0f} ms" for kind, seconds in p99_by_kind.items())
    case.landed(**{kind: one["done"] for kind, one in results.items()}).landed(viewers=10)
    served = results["sets"]["served"]
    case.note(
        f"p99 {summary}; memory grew by {grown_kib >> 10} MiB; {served} sets of tables served"
    )
    print(case.notes[-1], results)
    assert served >= MIN_SETS, "all of them were refused"
    assert all(one["done"] and one["refused"] for one in results.values()), results
    assert grown_kib < MAX_GROWTH_KIB
    alone = max(p99_by_kind["alone"], GRAIN_S)
    for kind in KINDS:
        assert p99_by_kind[kind] <= 2 * alone, kind
