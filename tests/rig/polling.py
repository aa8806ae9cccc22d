"""Ten HTTP clients in their own process that poll a table and check each response.

`python polling.py PORT TABLE ROWS [QUERY ...]` prints a line per response. It exits with the error
at the first incomplete response; `polling` then fails.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

EVERY_S = 0.5  # from a response to the reader's next request
_BLOCK = 1 << 20
_CELL = b'"_id":'  # once in each row of JSON
Line = TypeVar("Line")


class Response(NamedTuple):
    """A complete response."""

    reader: int
    query: str
    rows: int
    took_s: float


# The queries, of two readers each, and the expected number of rows; None: all rows.
QUERIES: dict[str, int | None] = {
    "format=json": None,
    "format=arrow": None,
    "format=csv&columns=_id,balance": None,
    "sort=-balance&limit=100": 100,
    "filter=age>=30&limit=1000": 1000,
}
READERS = 2 * len(QUERIES)


def polling(
    port: int, table: str, rows: int, command_prefix: Sequence[str] = ()
) -> contextlib.AbstractContextManager[list[Response]]:
    """Poll a table of `rows` rows during the block; yields the responses so far."""
    command = [*command_prefix, sys.executable, __file__, str(port), table, str(rows)]
    return running_process(command, lambda line: Response(*json.loads(line)))


@contextlib.contextmanager
def running_process(command: Sequence[str], read: Callable[[str], Line]) -> Iterator[list[Line]]:
    """Run a process during the block; yields its output, line by line. It must not exit early."""
    found: list[Line] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout

        def collect() -> None:
            found.extend(map(read, lines))

        thread = threading.Thread(target=collect)
        thread.start()
        try:
            yield found
            ended = process.poll()
        finally:
            process.kill()
            thread.join()
    assert ended is None, f"{command} has ended with {ended}"


# --- the program


def _count(query: str, answer: http.client.HTTPResponse) -> int:
    """Return the number of rows of a response, and check that it is complete."""
    if query.startswith("format=arrow"):
        import pyarrow as pa  # noqa: PLC0415 - only the program needs it

        with pa.ipc.open_stream(answer.read()) as stream:
            return sum(batch.num_rows for batch in stream)
    mark = b"\n" if query.startswith("format=csv") else _CELL
    count, tail, end = 0, b"", b""
    for block in iter(lambda: answer.read(_BLOCK), b""):
        data = tail + block
        count += data.count(mark)
        tail = data[-len(mark) + 1 :] if len(mark) > 1 else b""
        end = block[-2:]
    if mark == _CELL:
        assert end == b"]}", end
        return count
    assert end.endswith(b"\n"), end
    return count - 1  # the first line is the header


def _poll(reader: int, query: str, port: int, table: str, rows: int) -> None:
    expected = QUERIES.get(query)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while True:
        started = time.monotonic()
        connection.request("GET", f"/api/v1/tables/{table}?{query}")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK, answer.read()
        found = _count(query, answer)
        assert found == (rows if expected is None else expected), f"{query}: {found} rows"
        line = json.dumps([reader, query, found, time.monotonic() - started])
        os.write(1, f"{line}\n".encode())  # one write per line, since other threads write too
        time.sleep(EVERY_S)


def _read(reader: int, query: str, port: int, table: str, rows: int) -> None:
    try:
        _poll(reader, query, port, table, rows)
    except BaseException:  # noqa: BLE001 - one that fails ends them all
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Poll until killed."""
    port, table, rows, *queries = sys.argv[1:]
    for reader, query in enumerate(2 * (queries or list(QUERIES))):
        arguments = reader, query, int(port), table, int(rows)
        threading.Thread(target=_read, args=arguments).start()


if __name__ == "__main__":
    main()
