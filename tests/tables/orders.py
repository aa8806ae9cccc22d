"""A spec of three sources with all types and names that clash, and records of its changelog."""

from typing import Any

from livejoin.core.changelog import ChangelogRecord
from livejoin.core.generation import Generation
from livejoin.core.spec import Column, JoinSpec, Source
from livejoin.core.state import State
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.batches import Chunk

ORDERS = JoinSpec(
    (
        Source(
            "orders",
            (
                Column("orderId", "string"),
                Column("customerId", "string"),
                Column("total", "decimal(12,2)"),
                Column("at", "timestamp"),
                Column("paid", "boolean"),
            ),
            "customerId",
        ),
        Source(
            "customers",
            (Column("id", "string"), Column("name", "string"), Column("at", "timestamp")),
            "id",
        ),
        Source(
            "payments",
            (Column("customerId", "string"), Column("paid", "decimal(38,10)")),
            "customerId",
        ),
    )
)
DECODER = decode.decoder(ORDERS)
CHOICE = ORDERS.choice("orders", "customers", "payments")
ORDER = {
    "customerId": "c1",
    "orderId": "o1",
    "total": "12345678.90",
    "at": 1_700_000_000_123,
    "paid": True,
}


def order(offset: int, **cells: Any) -> ChangelogRecord:
    return ChangelogRecord("orders_ui", f"0-{offset}", ORDER | cells, 1000)


def chunk(generation: int, end: int, *changes: ChangelogRecord) -> Chunk:
    """A chunk of records that ends just before `end`."""
    return DECODER.decode_chunk(
        generation, end, [(change.key(), change.value()) for change in changes]
    )


def live(number: int, ready_at: int = 0) -> State:
    return State(live=Generation(number, CHOICE, 0.0, ready_at=ready_at, spec=ORDERS), spec=ORDERS)
