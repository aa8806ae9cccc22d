"""What several of these tests need."""

import pytest

from livejoin.tables.http import control_producer


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests without a Kafka: nobody is made to wait as long for its answer."""
    monkeypatch.setattr(control_producer, "_WRITE_S", 1)
