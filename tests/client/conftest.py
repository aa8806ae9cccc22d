from collections.abc import Iterator

import pytest

from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import socket as live_socket
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live, user


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    """A real server with generation 1, one user, one joined row and fast heartbeats."""
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    with run_server(sample_catalog()) as server:
        yield server


def sample_catalog() -> Catalog:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, user(0, ts=9000, age=2**53 + 1), final(0, "Ada")))
    return catalog
