"""Requests to Spark's ports in the framing of its own clients, sent without the secret."""

import socket
import struct

_LIMIT_S = 20
_REQUEST = 3
RESPONSE = 4  # type of a successful response; 5 is a failure
_TEXT = b"\xac\xed\x00\x05t\x00\x05hello"  # a string in Java serialization


def ask(port: int, body: bytes) -> tuple[int, bytes]:
    """Send one request; returns type and body of the response, type 0 if there is none."""
    message = struct.pack(">BqI", _REQUEST, 7, len(body))
    frame = struct.pack(">Q", 8 + len(message) + len(body)) + message + body
    with socket.create_connection(("127.0.0.1", port), _LIMIT_S) as connection:
        connection.sendall(frame)
        data = b""
        while more := connection.recv(65536):
            data += more
            if len(data) > 8 and len(data) >= struct.unpack_from(">Q", data)[0]:
                return data[8], data[9:]
    return 0, data


def request(port: int, endpoint: str) -> bytes:
    """Return a message for an endpoint of a driver or a master."""
    return b"\x00\x01" + _utf("127.0.0.1") + struct.pack(">I", port) + _utf(endpoint) + _TEXT


def block(application: str, name: str) -> bytes:
    """Return a request for a block of a driver's block manager."""
    return b"\x00" + _string(application) + _string("driver") + struct.pack(">I", 1) + _string(name)


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _string(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()
