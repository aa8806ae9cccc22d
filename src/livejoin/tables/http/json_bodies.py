"""JSON request bodies, and error responses as application/problem+json (RFC 9457)."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse


async def read_json_body(
    request: Request, max_bytes: int, *, too_large: str, not_json: str, may_be_empty: bool = False
) -> bytes:
    """Return the body unparsed; raises 413 if it is too large, 415 if it is not declared as JSON.

    The content-type is required because a form of another site cannot set it.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise HTTPException(413, too_large)
    if content_type != "application/json" and (body or not may_be_empty):
        raise HTTPException(415, not_json)
    return body


def problem(status: int, title: str, detail: str, **more: object) -> JSONResponse:
    """Return an error response with the reason in `detail`."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, media_type="application/problem+json")
