"""Ten who read a table over HTTP again and again, in a process of their own, checking each answer.

`python polling.py PORT TABLE ROWS [WHAT ...]` prints a line per answer. It ends, with what was
wrong, at the first answer that is not whole; `polling` then fails.
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

EVERY_S = 0.5  # after an answer, until the same reader asks again
_BLOCK = 1 << 20
_CELL = b'"_id":'  # once in each row of JSON
Line = TypeVar("Line")


class Answer(NamedTuple):
    """One whole answer."""

    reader: int
    asked: str
    rows: int
    took_s: float


# What is asked for, by two readers each, and how many rows that must give; None: all.
ASKED: dict[str, int | None] = {
    "format=json": None,
    "format=arrow": None,
    "format=csv&columns=_id,balance": None,
    "sort=-balance&limit=100": 100,
    "filter=age>=30&limit=1000": 1000,
}
READERS = 2 * len(ASKED)


def polling(
    port: int, table: str, rows: int, before: Sequence[str] = ()
) -> contextlib.AbstractContextManager[list[Answer]]:
    """Have a table of so many rows read meanwhile; the answers so far."""
    command = [*before, sys.executable, __file__, str(port), table, str(rows)]
    return beside(command, lambda line: Answer(*json.loads(line)))


@contextlib.contextmanager
def beside(command: Sequence[str], read: Callable[[str], Line]) -> Iterator[list[Line]]:
    """Another process meanwhile: what it prints, line by line. It must not end by itself."""
    found: list[Line] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout

        def note() -> None:
            found.extend(map(read, lines))

        thread = threading.Thread(target=note)
        thread.start()
        try:
            yield found
            ended = process.poll()
        finally:
            process.kill()
            thread.join()
    assert ended is None, f"{command} has ended with {ended}"


# --- the program


def _count(asked: str, answer: http.client.HTTPResponse) -> int:
    """The rows of an answer, which must have an end."""
    if asked.startswith("format=arrow"):
        import pyarrow as pa  # noqa: PLC0415 - whoever only starts the program does without

        with pa.ipc.open_stream(answer.read()) as stream:
            return sum(batch.num_rows for batch in stream)
    mark = b"\n" if asked.startswith("format=csv") else _CELL
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


def _poll(reader: int, asked: str, port: int, table: str, rows: int) -> None:
    wanted = ASKED.get(asked)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while True:
        began = time.monotonic()
        connection.request("GET", f"/api/v1/tables/{table}?{asked}")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK, answer.read()
        found = _count(asked, answer)
        assert found == (rows if wanted is None else wanted), f"{asked}: {found} rows"
        line = json.dumps([reader, asked, found, time.monotonic() - began])
        os.write(1, f"{line}\n".encode())  # at once: other threads write too
        time.sleep(EVERY_S)


def _read(reader: int, asked: str, port: int, table: str, rows: int) -> None:
    try:
        _poll(reader, asked, port, table, rows)
    except BaseException:  # noqa: BLE001 - one that fails ends them all
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Read until somebody ends it."""
    port, table, rows, *some = sys.argv[1:]
    for reader, asked in enumerate(2 * (some or list(ASKED))):
        given = reader, asked, int(port), table, int(rows)
        threading.Thread(target=_read, args=given).start()


if __name__ == "__main__":
    main()
