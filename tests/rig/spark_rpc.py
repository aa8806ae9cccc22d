"""Requests to Spark's ports as its own clients frame them, from somebody without the secret."""

import socket
import struct

_LIMIT_S = 20
_REQUEST = 3
RESPONSE = 4  # the kind of an answer by which a request has been done; 5 is a failure
_TEXT = b"\xac\xed\x00\x05t\x00\x05hello"  # a string as Java writes objects


def ask(port: int, body: bytes) -> tuple[int, bytes]:
    """Send one request; the kind of the answer, and what it says. 0: it was cut off."""
    message = struct.pack(">BqI", _REQUEST, 7, len(body))
    frame = struct.pack(">Q", 8 + len(message) + len(body)) + message + body
    with socket.create_connection(("127.0.0.1", port), _LIMIT_S) as connection:
        connection.sendall(frame)
        found = b""
        while more := connection.recv(65536):
            found += more
            if len(found) > 8 and len(found) >= struct.unpack_from(">Q", found)[0]:
                return found[8], found[9:]
    return 0, found


def request(port: int, endpoint: str) -> bytes:
    """A message for an endpoint of a driver or a master, which only who looks at it can name."""
    return b"\x00\x01" + _utf("127.0.0.1") + struct.pack(">I", port) + _utf(endpoint) + _TEXT


def block(application: str, name: str) -> bytes:
    """A request for a block that a driver's block manager holds."""
    return b"\x00" + _string(application) + _string("driver") + struct.pack(">I", 1) + _string(name)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _string(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()
