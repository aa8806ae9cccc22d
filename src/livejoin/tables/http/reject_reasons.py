"""Adds to messages of a peek why the pipeline has rejected them, as `rejects_ui` says it."""

from typing import Any

from livejoin.core import spec
from livejoin.tables.ingest.catalog import Catalog


def add_reject_reasons(body: dict[str, Any], catalog: Catalog) -> None:
    """Set the reason of each message that is among the rejects of the served generation."""
    topic, served = body["topic"], catalog.served
    if served is None:
        return
    sources = [name for name, read in served.generation.choice.topics.items() if read == topic]
    positions = {(message["partition"], message["offset"]): message for message in body["messages"]}
    ids = [f"{source}/{p}-{offset}" for source in sources for p, offset in positions]
    for record in catalog.store(spec.REJECTS).winning_records(spec.REJECTS, ids):
        if record.row is not None:
            at = record.row["partition"], record.row["offset"]
            positions[at]["reason"] = record.row["reason"]
