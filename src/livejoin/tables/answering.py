"""The answer to `GET tables/{name}`: the part that was asked for, streamed, or that it is known."""

import hashlib
import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from livejoin import __version__
from livejoin.core import spec
from livejoin.core.messages import shown
from livejoin.errors import AskError
from livejoin.tables import query
from livejoin.tables.formats import FORMATS
from livejoin.tables.host import Host

GENERATION = "livejoin-generation"
SEQ = "livejoin-seq"
TOTAL = "livejoin-total"


async def answer(request: Request, host: Host, name: str) -> Response:
    """A table's rows as they are now. Called on the loop that owns them, which copies nothing."""
    asked = query.parameters(request.query_params.multi_items())
    form = asked.get("format", "json")
    if form not in FORMATS:
        raise AskError(f"unknown format {shown(form)}", hint=f"Known are {', '.join(FORMATS)}.")
    wanted = query.read(asked, host.store(name).schema)
    tag = _tag(host, name, asked)
    # a cache may keep it, and asks each time whether it still holds
    headers = {"etag": tag, "cache-control": "no-cache"}
    if _known(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    head = {"table": name, "generation": host.generation, "seq": host.seq}
    found = await run_in_threadpool(query.run, wanted, host.store(name).snapshot())
    headers |= {SEQ: str(head["seq"]), TOTAL: str(found.total)}
    if head["generation"] is not None:
        headers[GENERATION] = str(head["generation"])
    pieces = iter(()) if request.method == "HEAD" else FORMATS[form].write(found, head)
    return StreamingResponse(pieces, headers=headers, media_type=FORMATS[form].media_type)


def _tag(host: Host, name: str, asked: dict[str, str]) -> str:
    """What is the same exactly as long as the rows are. Weak: `seq` may move on meanwhile."""
    store = host.store(name)
    # `seq` counts what comes by the changelog, which livejoin's own tables do not
    rows = [host.generation, host.seq] if spec.ALL_TABLES[name].data else [store.hash]
    parts = [__version__, name, len(store), *rows, sorted(asked.items())]
    return f'W/"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"'


def _known(given: str, tag: str) -> bool:
    """Whether the asker has it; weak or not makes no difference to that."""
    known = [one.strip().removeprefix("W/") for one in given.split(",")]
    return "*" in known or tag.removeprefix("W/") in known
