"""Errors over HTTP: problem+json, with what is wrong and what to do."""

from starlette.responses import JSONResponse


def problem(status: int, title: str, detail: str, **more: object) -> JSONResponse:
    """An answer that says what is wrong."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, media_type="application/problem+json")
