"""The response to `GET tables/{name}`: the queried rows, streamed, or 304 Not Modified."""

import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from livejoin import __version__
from livejoin.core import spec
from livejoin.core.control_messages import excerpt
from livejoin.errors import AskError
from livejoin.tables.http import query
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.http.snapshots import SnapshotReader
from livejoin.tables.ingest.catalog import Catalog

GENERATION_HEADER = "livejoin-generation"
SEQ_HEADER = "livejoin-seq"
TOTAL_HEADER = "livejoin-total"


async def table_response(
    request: Request, catalog: Catalog, snapshots: SnapshotReader, name: str
) -> Response:
    """Return the response of a table query. Runs on the event loop, which copies no rows."""
    parameters = query.parse_parameters(request.query_params.multi_items())
    format_name = parameters.get("format", "json")
    if format_name not in FORMATS:
        raise AskError(
            f"unknown format {excerpt(format_name)}", hint=f"Known formats: {', '.join(FORMATS)}."
        )
    parsed = query.parse(parameters, catalog.store(name).schema)
    # livejoin's own tables are not in the changelog, so `seq` does not count their changes
    is_data_table, store = spec.ALL_TABLES[name].data, catalog.store(name)
    version = [catalog.generation, catalog.seq] if is_data_table else [store.hash]
    tag = _etag(name, parameters, version)
    # a cache may store it, and must revalidate
    headers = {"etag": tag, "cache-control": "no-cache"}
    if _etag_matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    snapshot = await snapshots.read(name)
    if is_data_table:  # a shared snapshot may be newer than the request
        headers["etag"] = _etag(name, parameters, [snapshot.generation, snapshot.seq])
    metadata = {"table": name, "generation": snapshot.generation, "seq": snapshot.seq}
    result = await snapshots.run(snapshot.rows, query.run, parsed, snapshot.rows)
    headers |= {SEQ_HEADER: str(snapshot.seq), TOTAL_HEADER: str(result.total)}
    if snapshot.generation is not None:
        headers[GENERATION_HEADER] = str(snapshot.generation)
    chunks = iter(()) if request.method == "HEAD" else FORMATS[format_name].write(result, metadata)
    return StreamingResponse(
        snapshots.stream(result.rows, chunks),
        headers=headers,
        media_type=FORMATS[format_name].media_type,
    )


def _etag(name: str, parameters: dict[str, str], version: list[Any]) -> str:
    """Return an ETag of the rows and the query. Weak, as `seq` may advance without a change."""
    parts = [__version__, name, *version, sorted(parameters.items())]
    return f'W/"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"'


def _etag_matches(header: str, tag: str) -> bool:
    """Whether If-None-Match names the tag, by weak comparison."""
    tags = [candidate.strip().removeprefix("W/") for candidate in header.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
