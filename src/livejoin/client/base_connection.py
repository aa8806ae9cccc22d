"""What both kinds of connection share: everything but waiting.

That includes the conversions to pandas and polars, which are imported on first use.
"""

import importlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from websockets.exceptions import InvalidStatus

from livejoin.client import credentials
from livejoin.client.change_queue import ChangeQueue
from livejoin.client.endpoint import Endpoint
from livejoin.client.frames import SUBPROTOCOL
from livejoin.client.protocol import ClientSession
from livejoin.core import spec
from livejoin.errors import LivejoinError, MachineError, RequestError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

READ_TIMEOUT_S = 30.0
SWAP_TIMEOUT_S = 600.0
OPEN_TIMEOUT_S = 5.0


def find_endpoint(url: str | None, token: str | None) -> Endpoint:
    """Return the livejoin at a URL, by default with what the command line would use."""
    checked = Endpoint(credentials.find_url() if url is None else url, token)
    if token is not None:
        return checked
    return replace(checked, token=credentials.find_token(checked.url))


class BaseConnection:
    """One livejoin and the session with it; subclasses drive the session."""

    _constructor: ClassVar[str]  # named in the hint of a closed connection

    def __init__(self, address: Endpoint) -> None:
        self._endpoint = address
        # the status table is one row, and subscribing to it makes every cutover visible
        self._session = ClientSession(spec.STATUS)
        self._change_queues: list[ChangeQueue] = []
        self._failure: BaseException | None = None

    @property
    def generation(self) -> int | None:
        """The generation that this connection's tables show."""
        return self._session.generation

    @property
    def heartbeat_age_s(self) -> float | None:
        """Seconds since the last heartbeat, or None before the first."""
        heartbeat_at = self._session.heartbeat_at
        return None if heartbeat_at is None else time.monotonic() - heartbeat_at

    @property
    def mismatches(self) -> int:
        """How often a heartbeat did not match the rows here; they were then fetched again."""
        return self._session.mismatches

    @property
    def reconnects(self) -> int:
        """How often an open socket was lost."""
        return self._session.reconnects

    def _ensure_usable(self, *, closed: bool) -> None:
        if closed:
            raise RequestError(
                "the connection is closed", hint=f"{self._constructor}() opens a new one."
            )
        if isinstance(self._failure, LivejoinError):
            raise self._failure
        if self._failure is not None:
            raise RequestError("the connection failed with an internal error") from self._failure

    @property
    def _socket_options(self) -> dict[str, Any]:
        """Options of the WebSocket."""
        return {
            "subprotocols": [SUBPROTOCOL],
            "additional_headers": self._endpoint.headers,
            "proxy": None if self._endpoint.is_local else True,
            "compression": None,
            "max_size": None,
            "open_timeout": OPEN_TIMEOUT_S,
            "close_timeout": OPEN_TIMEOUT_S,
            "ping_interval": None,  # heartbeats replace pings
        }

    def _disconnect_reason(self, error: Exception) -> str:
        """Return why a socket was lost. Raises if reconnecting cannot help."""
        if isinstance(error, InvalidStatus):
            response = error.response
            denied = self._endpoint.auth_error(response.status_code, response.reason_phrase)
            if denied is not None:
                raise denied from error
        if isinstance(error, TimeoutError):
            return f"nothing received for {self._session.receive_timeout_s:.0f} s"
        return str(error)


def to_pandas(rows: pa.Table) -> "pd.DataFrame":
    """Convert to pandas; int64 columns become Int64, so that nulls do not turn them into floats."""
    pandas = _import("pandas")
    return rows.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)


def to_polars(rows: pa.Table) -> "pl.DataFrame":
    """Convert to polars."""
    frame: pl.DataFrame = _import("polars").from_arrow(rows)
    return frame


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MachineError(
            f"{name} cannot be imported: {error}",
            hint=f"Install it with `pip install {name}`, or use to_arrow().",
        ) from error
