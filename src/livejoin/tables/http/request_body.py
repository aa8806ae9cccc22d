"""What a request brings: read as it comes, and no more of it than may be."""

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def read_json_body(
    request: Request, most: int, *, too_large: str, not_json: str, empty: bool = False
) -> bytes:
    """A body as it came, if it is small and said to be JSON: a form of another site is not."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, too_large)
    if kind != "application/json" and (body or not empty):
        raise HTTPException(415, not_json)
    return body
