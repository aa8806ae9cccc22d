"""livejoin's tables in Python: live, as Arrow, through every swap.

`connect` for programs without an event loop, `aconnect` for those with one.
"""

from livejoin.client.aio import AsyncConnection, AsyncTable, aconnect
from livejoin.client.asks import Outcome
from livejoin.client.session import Change
from livejoin.client.sync import Connection, Table, connect

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
