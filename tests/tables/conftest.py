"""Shared fixtures."""

import pytest

from livejoin.tables.http import control_producer


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the write timeout for tests without Kafka."""
    monkeypatch.setattr(control_producer, "_WRITE_S", 1)
