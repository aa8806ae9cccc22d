"""Python client: livejoin's tables as Arrow, kept up to date through every swap.

Use `connect` without an event loop, `aconnect` with asyncio.
"""

from livejoin.client.async_connection import AsyncConnection, AsyncTable, aconnect
from livejoin.client.connection import Connection, Table, connect
from livejoin.client.protocol import Change
from livejoin.client.requests import Outcome

__all__ = [
    "AsyncConnection",
    "AsyncTable",
    "Change",
    "Connection",
    "Outcome",
    "Table",
    "aconnect",
    "connect",
]
