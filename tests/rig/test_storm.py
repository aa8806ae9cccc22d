"""The checks of the storm, of B6 and of A14 can fail."""

import itertools
import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from rig.mutated import invalid_messages
from rig.records import expect_one_order
from rig.running import until
from rig.sampling import Resources, Staleness, resources
from rig.storm_actions import KINDS, ClockStep


def test_every_clock_step_is_a_documented_one() -> None:
    steps = [KINDS["clock step"].make(random.Random(seed)) for seed in range(100)]
    assert {step.ahead_s for step in steps if isinstance(step, ClockStep)} == {
        -86_400,
        -3600,
        3600,
        86_400,
    }


def test_lines_of_two_writers_are_detected() -> None:
    expect_one_order([1, 2, 3])
    with pytest.raises(AssertionError, match=r"lines \[2\] were written more than once"):
        expect_one_order([1, 2, 2, 3])
    with pytest.raises(AssertionError, match="in turns"):
        expect_one_order([1, 3, 2])
    with pytest.raises(AssertionError, match="no line"):
        expect_one_order([])


def test_mutated_messages_name_topics_of_the_running_livejoin() -> None:
    names = Names("b6")
    messages = itertools.islice(invalid_messages(1, MessageRules(names, "b6.control")), 5000)
    raws, reasons = zip(*messages, strict=True)
    assert not any(b"livejoin." in raw for raw in raws)
    for topic in (names.ledger, names.logs, names.replies, names.changelog(1), "b6.control"):
        assert any(f"{topic} is " in reason for reason in reasons), topic


def test_threads_handles_and_processes_are_counted() -> None:
    null, before = Path(os.devnull), resources(os.getpid())
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with null.open(), null.open():
            now = resources(os.getpid())
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert (now.threads - before.threads, now.handles - before.handles) == (3, 2)
    assert now.exceeds(before, Resources(2, 2, 0))
    assert now.exceeds(before, Resources(3, 1, 0))
    assert not now.exceeds(before, Resources(3, 2, 0))


def test_a_zombie_is_not_counted() -> None:
    before = resources(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as one:
        assert resources(os.getpid()).processes == before.processes + 1
        one.kill()
        until(lambda: resources(os.getpid()).processes == before.processes, "it is not counted", 10)
        assert one.returncode is None, "it was waited for"


def test_staleness_records_when_a_fault_was_reported() -> None:
    status: dict[str, str | None] = {"state": "live", "stale": None}
    with Staleness(lambda: dict(status)) as staleness:
        until(lambda: staleness.samples > 1, "it takes samples")
        assert staleness.reported_after(0) is None
        status["stale"] = "no orchestrator leads"
        until(lambda: staleness.reported_after(0) is not None, "it is reported")
    assert staleness.reported_after(time.monotonic()) is None
