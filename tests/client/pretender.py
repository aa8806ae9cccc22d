"""A fake server that answers every request with a fixed response."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tables.live_server import LIMIT_S

Responder = Callable[[Request], tuple[int, str]]


@contextlib.contextmanager
def fake_server(answer: Responder) -> Iterator[tuple[str, list[Request]]]:
    """Serve on loopback, the WebSocket path included; yields the URL and the requests received."""
    received: list[Request] = []

    def respond(_: ServerConnection, request: Request) -> Response:
        received.append(request)
        status, body = answer(request)
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        if status == 302:
            headers["Location"] = (
                "/elsewhere"  # the same server, so that a followed redirect would show
            )
        return Response(status, HTTPStatus(status).phrase, headers, body.encode())

    def no_socket(_: ServerConnection) -> None:
        raise AssertionError

    logger = logging.getLogger("pretender")
    with serve(no_socket, "127.0.0.1", 0, process_request=respond, logger=logger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/", received
        finally:
            server.shutdown()
            thread.join(LIMIT_S)
