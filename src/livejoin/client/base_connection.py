"""What connections with and without an event loop have in common: all but waiting."""

import time
from typing import Any, ClassVar

from websockets.exceptions import InvalidStatus

from livejoin.client.change_queue import ChangeQueue
from livejoin.client.endpoint import Endpoint
from livejoin.client.frames import SUBPROTOCOL
from livejoin.client.protocol import ClientSession
from livejoin.core import spec
from livejoin.errors import AskError, LivejoinError

READ_TIMEOUT_S = 30.0
SWAP_TIMEOUT_S = 600.0
OPEN_TIMEOUT_S = 5.0


class BaseConnection:
    """One livejoin and the session with it, whoever drives that."""

    _constructor: ClassVar[str]  # for people whose connection is closed

    def __init__(self, address: Endpoint) -> None:
        self._endpoint = address
        # the status is one row, and with it every connection learns of every cutover
        self._session = ClientSession(spec.STATUS)
        self._change_queues: list[ChangeQueue] = []
        self._failure: BaseException | None = None

    @property
    def generation(self) -> int | None:
        """Which generation the tables here show."""
        return self._session.generation

    @property
    def heartbeat_age_s(self) -> float | None:
        """Seconds since livejoin was last heard of, or None before that."""
        at = self._session.heartbeat_at
        return None if at is None else time.monotonic() - at

    @property
    def mismatches(self) -> int:
        """How often what was held here was not what livejoin had; it was then taken afresh."""
        return self._session.mismatches

    @property
    def reconnects(self) -> int:
        """How often an open socket was lost."""
        return self._session.reconnects

    def _ensure_usable(self, *, closed: bool) -> None:
        if closed:
            raise AskError(
                "the connection is closed", hint=f"{self._constructor}() makes a new one."
            )
        if isinstance(self._failure, LivejoinError):
            raise self._failure
        if self._failure is not None:
            raise AskError("the connection ended by an error of its own") from self._failure

    @property
    def _socket_options(self) -> dict[str, Any]:
        """How a socket is opened."""
        return {
            "subprotocols": [SUBPROTOCOL],
            "additional_headers": self._endpoint.headers,
            "proxy": None if self._endpoint.is_local else True,
            "compression": None,
            "max_size": None,
            "open_timeout": OPEN_TIMEOUT_S,
            "close_timeout": OPEN_TIMEOUT_S,
            "ping_interval": None,  # heartbeats tell more
        }

    def _disconnect_reason(self, error: Exception) -> str:
        """Why a socket came to its end; raises where another one would be of no use."""
        if isinstance(error, InvalidStatus):
            response = error.response
            forbidden = self._endpoint.auth_error(response.status_code, response.reason_phrase)
            if forbidden is not None:
                raise forbidden from error
        if isinstance(error, TimeoutError):
            return f"silent for {self._session.receive_timeout_s:.0f} s"
        return str(error)
