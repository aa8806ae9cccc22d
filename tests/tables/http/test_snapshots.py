"""Reading a whole table over HTTP does not block other requests: the event loop stays free."""

import dataclasses
import functools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from livejoin.tables.http import query, row_formats
from livejoin.tables.http.row_formats import FORMATS, Format
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.segments import FrozenRows
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, final, live

COUNT = 100
STEPS = ("put together", "sorted and filtered", "written")


class Gate:
    """Blocks the work of one step while closed."""

    def __init__(self) -> None:
        self.blocked = threading.Event()  # set: a thread is blocked
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def wait_open(self) -> None:
        if not self._open.is_set():
            self.blocked.set()
            assert self._open.wait(LIMIT_S)

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def gated(*args: Any) -> Any:
            self.wait_open()
            return work(*args)

        return gated

    def within(self, form: Format) -> Format:
        def gated(*args: Any) -> Iterator[bytes]:
            for piece in form.write(*args):
                self.wait_open()
                yield piece

        return dataclasses.replace(form, write=gated)


@pytest.fixture(params=STEPS)
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A gate before one of the steps of a response."""
    step_gate = Gate()
    if request.param == "put together":
        monkeypatch.setattr(FrozenRows, "table", step_gate.before(FrozenRows.table))
    elif request.param == "sorted and filtered":
        monkeypatch.setattr(query, "run", step_gate.before(query.run))
    else:
        for name, form in FORMATS.items():
            monkeypatch.setitem(FORMATS, name, step_gate.within(form))
    return step_gate


@pytest.fixture
def server(gate: Gate) -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, COUNT, *(final(number, "Ada", 0) for number in range(COUNT))))
    with run_server(catalog) as server:
        try:
            yield server
        finally:
            gate.open()  # otherwise a failed test would block here


@pytest.mark.parametrize("form", FORMATS)
def test_reading_a_table_blocks_no_other_request(
    server: RunningServer, gate: Gate, form: str
) -> None:
    with ThreadPoolExecutor() as executor, server.viewer("final_ui") as viewer:
        viewer.next_frame()
        gate.close()
        reading = executor.submit(server.request, f"/api/v1/tables/final_ui?format={form}")
        assert gate.blocked.wait(LIMIT_S)
        try:
            assert server.request("/livez").status == 200
            server.apply(1, COUNT + 1, final(0, "Grace", 1))
            assert [row["name"] for row in viewer.next_frame("data").rows("final_ui")] == ["Grace"]
            assert not reading.done()
        finally:
            gate.open()
        response = reading.result(LIMIT_S)
    assert (response.status, response.headers["livejoin-total"]) == (200, str(COUNT))
    assert response.body.count(b"Ada") >= COUNT - 1


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_rows_are_encoded_in_batches(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding a batch holds the interpreter lock, so batches must be small."""
    batch_sizes: list[int] = []
    to_json_rows = row_formats.to_json_rows

    def counting_to_json_rows(table: pa.Table) -> list[dict[str, Any]]:
        batch_sizes.append(table.num_rows)
        return to_json_rows(table)

    monkeypatch.setattr(row_formats, "to_json_rows", counting_to_json_rows)
    table = pa.table({"_id": [f"0-{number}" for number in range(25_000)]})
    found = query.run(query.parse({}, table.schema), table)
    text = b"".join(FORMATS[form].write(found, {"table": "final_ui"})).decode()
    assert max(batch_sizes) <= 500
    assert sum(batch_sizes) == table.num_rows
    lines = json.loads(text)["rows"] if form == "json" else map(json.loads, text.splitlines())
    assert list(lines) == table.to_pylist()
