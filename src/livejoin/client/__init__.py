"""livejoin's tables in Python: live, as Arrow, through every swap.

`connect` for programs without an event loop, `aconnect` for those with one.
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
