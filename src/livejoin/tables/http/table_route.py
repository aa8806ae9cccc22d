"""The answer to `GET tables/{name}`: the part that was asked for, streamed, or that it is known."""

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
    request: Request, host: Catalog, snapshots: SnapshotReader, name: str
) -> Response:
    """A table's rows as they are now. Called on the loop that owns them, which copies nothing."""
    asked = query.parse_parameters(request.query_params.multi_items())
    form = asked.get("format", "json")
    if form not in FORMATS:
        raise AskError(f"unknown format {excerpt(form)}", hint=f"Known are {', '.join(FORMATS)}.")
    wanted = query.parse(asked, host.store(name).schema)
    # `seq` counts what comes by the changelog, which livejoin's own tables do not
    data, store = spec.ALL_TABLES[name].data, host.store(name)
    rows = [host.generation, host.seq] if data else [store.hash]
    tag = _etag(name, asked, rows)
    # a cache may keep it, and asks each time whether it still holds
    headers = {"etag": tag, "cache-control": "no-cache"}
    if _etag_matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    now = await snapshots.read(name)
    if data:  # what others waited for may be newer than the question
        headers["etag"] = _etag(name, asked, [now.generation, now.seq])
    head = {"table": name, "generation": now.generation, "seq": now.seq}
    found = await snapshots.run(now.rows, query.run, wanted, now.rows)
    headers |= {SEQ_HEADER: str(now.seq), TOTAL_HEADER: str(found.total)}
    if now.generation is not None:
        headers[GENERATION_HEADER] = str(now.generation)
    pieces = iter(()) if request.method == "HEAD" else FORMATS[form].write(found, head)
    return StreamingResponse(
        snapshots.stream(found.rows, pieces), headers=headers, media_type=FORMATS[form].media_type
    )


def _etag(name: str, asked: dict[str, str], rows: list[Any]) -> str:
    """What is the same exactly as long as the rows are. Weak: `seq` may move on meanwhile."""
    parts = [__version__, name, *rows, sorted(asked.items())]
    return f'W/"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"'


def _etag_matches(given: str, tag: str) -> bool:
    """Whether the asker has it; weak or not makes no difference to that."""
    known = [one.strip().removeprefix("W/") for one in given.split(",")]
    return "*" in known or tag.removeprefix("W/") in known
