"""A proxy that notes what it is sent, and answers that it cannot reach anybody."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Noted:
    """Where the proxy is, and the head of each request that it was sent."""

    url: str = ""
    heads: list[str] = field(default_factory=list)


@contextlib.contextmanager
def proxy() -> Iterator[Noted]:
    """One on loopback, until the block ends."""
    noted = Noted()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while (line := self.rfile.readline()).strip():
                head += line
            noted.heads.append(head.decode("latin-1"))
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        noted.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="proxy")
        thread.start()
        try:
            yield noted
        finally:
            server.shutdown()
            thread.join()
