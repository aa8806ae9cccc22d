"""A settings file, and what the checks find for it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from livejoin.config import settings
from livejoin.doctor import diagnosis
from livejoin.doctor.findings import Finding
from livejoin.kafka.cluster import Kafka
from livejoin.runtime.broker import free_port

Diagnose = Callable[..., list[Finding]]


@pytest.fixture(autouse=True)
def _own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings: None
) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with contextlib.chdir(tmp_path):
        yield


@pytest.fixture
def diagnose(tmp_path: Path) -> Diagnose:
    """Returns a function that checks settings with these changes, and returns the findings."""

    def run(kafka: Kafka | Mapping[str, Any], **more: Any) -> list[Finding]:
        block = dict(kafka.properties if isinstance(kafka, Kafka) else kafka)
        values = {
            "kafka": block,
            "checkpoints": str(tmp_path / "checkpoints"),
            "http": {"port": free_port()},
            **more,
        }
        file = tmp_path / "livejoin.yaml"
        file.write_text(yaml.safe_dump(values))
        return list(diagnosis.diagnose(lambda: settings.load(file), "the settings", is_demo=False))

    return run
