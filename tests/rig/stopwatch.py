"""A viewer of `final_ui` that measures the age of each account when its row arrives."""

import json
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from rig import protocol


class Stopwatch:
    """`balance` is the number of the record, and `sent` the time it was handed to the producer."""

    def __init__(self, url: str, sent: Sequence[float]) -> None:
        self._address, self._sent = url.replace("http", "ws") + "api/v1/live", sent
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stopwatch")
        self._ages: list[np.ndarray] = []
        self._measured = np.zeros(1 << 16, bool)  # by record number
        self.read = 0  # records, as of the last heartbeat
        self.dropped = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        protocols = [Subprotocol("livejoin.v1")]
        with connect(self._address, subprotocols=protocols, max_size=None, proxy=None) as socket:
            socket.send(json.dumps({"subscribe": ["final_ui"]}))
            while not self._stop.is_set():
                try:
                    data = socket.recv(0.2)
                except TimeoutError:
                    continue
                except ConnectionClosed:
                    self.dropped += 1
                    return
                assert isinstance(data, bytes)
                self._on_frame(data, time.monotonic())

    def _on_frame(self, data: bytes, now: float) -> None:
        header, parts = protocol.parse_frame(data)
        if header["type"] == "heartbeat":
            self.read = sum(source["read"] for source in header["sources"].values())
        for part in parts:
            if part.kind == "upsert":
                with pa.ipc.open_stream(part.payload) as stream:
                    numbers = stream.read_all().column("balance").drop_null().to_numpy()
                self._measure(numbers.astype(np.int64), now)

    def _measure(self, numbers: np.ndarray, now: float) -> None:
        """Measure each account at its first arrival, however late that is."""
        highest = int(numbers.max(initial=-1))
        if highest >= len(self._measured):
            self._measured = np.concatenate([self._measured, np.zeros(highest + 1, bool)])
        new = numbers[~self._measured[numbers]]
        if len(new):
            self._measured[new] = True
            self._ages.append(now - np.array([self._sent[number] for number in new]))

    def reset(self) -> None:
        """Discard the measurements so far."""
        self._ages.clear()

    def percentile(self, share: float) -> float:
        """Return seconds; all samples of a frame have the delay of the frame."""
        return float(np.percentile(np.concatenate(self._ages), share))

    @property
    def samples(self) -> int:
        return sum(map(len, self._ages))
