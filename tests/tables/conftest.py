"""Shared fixtures."""

import pytest

from livejoin.tables.http import control_requests


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the write timeout for tests without Kafka."""
    monkeypatch.setattr(control_requests, "_WRITE_S", 1)
