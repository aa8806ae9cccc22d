"""Duration of a swap: control message to cutover frame at a connected viewer, in a warm process.

With small topics that share no userId, under light traffic, and every frame checked. Also
rollbacks, the decision on a message, and folding a long control history.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from livejoin.core import control_messages, facts
from livejoin.core.control_records import ControlHistory, parse_record
from livejoin.core.decide import decide
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import State
from livejoin.runtime import broker
from rig.world import (
    ExpectNothingLeft,
    Send,
    Traffic,
    WaitOutcome,
    World,
    cutover_seconds,
    play,
    request_pair,
    run_world,
)

OUT = Path(__file__).parent / "out" / "swap.json"
NAME = "bench"
RULES = control_messages.MessageRules(Names(NAME), "control")
HISTORY = 100_000


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=4, help="swaps before they count")
    parser.add_argument("--rate", type=int, default=10, help="records/s for each pair of topics")
    options = parser.parse_args()
    figures = {"fold 100,000 messages, s": [_fold()], "decide, ms": _decide()}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with (
            broker.embedded_broker(folder / "broker") as kafka,
            run_world(kafka, folder / "run", NAME) as world,
        ):
            play(world, [Traffic(options.rate)])
            swaps = [_swap(world, number) for number in range(options.warm_up + options.swaps)]
            figures["swap, s"] = swaps[options.warm_up :]
            figures["rollback, s"] = [
                cutover_seconds(world, Send({"action": "rollback"})) for _ in range(options.swaps)
            ]
            wrong, frames = world.watcher.wrong, world.watcher.frames
    _report(figures, wrong, frames)


def _swap(world: World, number: int) -> float:
    join = ("left", "inner")[number // 2 % 2]
    took = cutover_seconds(world, request_pair(NAME, "ba"[number % 2], joinType=join))
    play(world, [WaitOutcome("live"), ExpectNothingLeft()])
    return took


def _fold() -> float:
    started = time.perf_counter()
    history = ControlHistory()
    for offset in range(HISTORY):
        raw = b'{"usersTopic":"users_%d","joinType":"inner","id":"%d"}' % (offset % 7, offset)
        history.add(parse_record(0, offset, 1.0, "kafka", raw, RULES))
    state = decide(State(), facts.LeaderStarted(1.0, 1.0, DEFAULT.choice("users", "accounts")))
    decide(state, history.replayed("t", {0: HISTORY}))
    return time.perf_counter() - started


def _decide() -> list[float]:
    state = decide(State(), facts.LeaderStarted(1.0, 1.0, DEFAULT.choice("users", "accounts")))
    state = decide(state, facts.HistoryReplayed("t", {0: 0}, control_messages.Request()))
    took = []
    for offset in range(5000):
        raw = b'{"usersTopic":"users_%d","id":"%d"}' % (offset % 7, offset)
        started = time.perf_counter()
        one = parse_record(0, offset, 1.0, "kafka", raw, RULES)
        assert one.request is not None
        found = {topic: facts.TopicInfo(2) for topic in one.request.topics.values()}
        state = decide(state, facts.MessageReceived(one.origin, one.request, one.error, found))
        took.append((time.perf_counter() - started) * 1000)
        state = replace(state, outbox=())
    return took


def _report(figures: dict[str, list[float]], wrong: list[str], frames: int) -> None:
    result = {}
    for name, samples in figures.items():
        samples.sort()
        p99 = samples[min(len(samples) - 1, int(len(samples) * 0.99))]
        result[name] = {"median": statistics.median(samples), "p99": p99, "worst": samples[-1]}
        cells = "  ".join(f"{what} {value:8.3f}" for what, value in result[name].items())
        print(f"{name:<28} {len(samples):>5} samples  {cells}")
    print(f"{frames} frames checked, {len(wrong)} blank or mixed {wrong[:3]}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({**result, "frames": frames, "wrong": len(wrong)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
