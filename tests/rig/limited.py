"""A broker whose policy forbids some of what livejoin's own topics would have.

The policy (`policy/LimitedTopics.java`) refuses records over 8 MiB, segments under an hour, and
names that do not begin with `known.`, `quiet.` or `strict.`. It names what it refuses, except under
`quiet.`. Under `strict.` it also refuses what livejoin needs.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import jars, processes
from rig import brokers

BROKER_BYTES = 1 << 20  # the broker's own message.max.bytes
_POLICY = Path(__file__).parent / "policy" / "LimitedTopics.java"


@contextlib.contextmanager
def limited_broker(folder: Path, more: Mapping[str, str]) -> Iterator[Kafka]:
    """Run a broker with the policy."""
    settings = {
        "create.topic.policy.class.name": "LimitedTopics",
        "message.max.bytes": str(BROKER_BYTES),
        **more,
    }
    classes = [_compile_policy(folder / "classes")]
    with brokers.broker(folder / "broker", more=settings, more_classes=classes) as kafka:
        yield kafka


def _compile_policy(folder: Path) -> Path:
    """Compile the policy against the broker's jars; returns the folder of its class."""
    javac = Path(processes.find_java()).with_name("javac")
    command = str(javac) if javac.exists() else shutil.which("javac")
    if command is None:
        pytest.skip("there is no javac: only a JRE is installed")
    classpath = os.pathsep.join(map(str, jars.jars("broker")))
    subprocess.run([command, "-cp", classpath, "-d", str(folder), str(_POLICY)], check=True)
    return folder
