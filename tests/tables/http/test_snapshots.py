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
    """Holds up some work from when it is shut until it is opened."""

    def __init__(self) -> None:
        self.there = threading.Event()  # somebody waits
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def hold_up(self) -> None:
        if not self._open.is_set():
            self.there.set()
            assert self._open.wait(LIMIT_S)

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def held_up(*given: Any) -> Any:
            self.hold_up()
            return work(*given)

        return held_up

    def within(self, form: Format) -> Format:
        def held_up(*given: Any) -> Iterator[bytes]:
            for piece in form.write(*given):
                self.hold_up()
                yield piece

        return dataclasses.replace(form, write=held_up)


@pytest.fixture(params=STEPS)
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Before one of the steps of an answer."""
    one = Gate()
    if request.param == "put together":
        monkeypatch.setattr(FrozenRows, "table", one.before(FrozenRows.table))
    elif request.param == "sorted and filtered":
        monkeypatch.setattr(query, "run", one.before(query.run))
    else:
        for name, form in FORMATS.items():
            monkeypatch.setitem(FORMATS, name, one.within(form))
    return one


@pytest.fixture
def server(gate: Gate) -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, COUNT, *(final(number, "Ada", 0) for number in range(COUNT))))
    with run_server(catalog) as server:
        try:
            yield server
        finally:
            gate.open()  # or a test that fails would wait for it


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_that_is_read_keeps_nobody_waiting(
    server: RunningServer, gate: Gate, form: str
) -> None:
    with ThreadPoolExecutor() as others, server.viewer("final_ui") as viewer:
        viewer.next_frame()
        gate.shut()
        reading = others.submit(server.request, f"/api/v1/tables/final_ui?format={form}")
        assert gate.there.wait(LIMIT_S)
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
def test_rows_become_text_in_runs(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run becomes Python's objects and text, the interpreter does nothing else."""
    runs: list[int] = []
    whole = row_formats.to_json_rows

    def counted(table: pa.Table) -> list[dict[str, Any]]:
        runs.append(table.num_rows)
        return whole(table)

    monkeypatch.setattr(row_formats, "to_json_rows", counted)
    table = pa.table({"_id": [f"0-{number}" for number in range(25_000)]})
    found = query.run(query.parse({}, table.schema), table)
    text = b"".join(FORMATS[form].write(found, {"table": "final_ui"})).decode()
    assert max(runs) <= 500
    assert sum(runs) == table.num_rows
    lines = json.loads(text)["rows"] if form == "json" else map(json.loads, text.splitlines())
    assert list(lines) == table.to_pylist()
