"""An HTTP proxy that records requests and answers each with 502."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class RecordedRequests:
    """URL of the proxy, and the head of each request it received."""

    url: str = ""
    heads: list[str] = field(default_factory=list)


@contextlib.contextmanager
def proxy() -> Iterator[RecordedRequests]:
    """Run a proxy on loopback until the end of the block."""
    recorded = RecordedRequests()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while (line := self.rfile.readline()).strip():
                head += line
            recorded.heads.append(head.decode("latin-1"))
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        recorded.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="proxy")
        thread.start()
        try:
            yield recorded
        finally:
            server.shutdown()
            thread.join()
