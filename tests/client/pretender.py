"""A server that only pretends to be livejoin."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tables.live_server import LIMIT_S

Answering = Callable[[Request], tuple[int, str]]


@contextlib.contextmanager
def pretender(answer: Answering) -> Iterator[tuple[str, list[Request]]]:
    """A server that answers every request, including the socket's, with a fixed response."""
    asked: list[Request] = []

    def respond(_: ServerConnection, request: Request) -> Response:
        asked.append(request)
        status, body = answer(request)
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        if status == 302:
            headers["Location"] = "/elsewhere"  # the same server, so it would be asked again
        return Response(status, HTTPStatus(status).phrase, headers, body.encode())

    def never(_: ServerConnection) -> None:
        raise AssertionError

    logger = logging.getLogger("pretender")
    with serve(never, "127.0.0.1", 0, process_request=respond, logger=logger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/", asked
        finally:
            server.shutdown()
            thread.join(LIMIT_S)
