"""HTTP requests to one livejoin, of the Python client and of the command line.

The token is sent to that URL only. No proxy is used for loopback URLs: without TLS it would see the
token, and it cannot reach this machine's loopback anyway. For others the environment's is used.
"""

import contextlib
import ipaddress
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from livejoin.core.control_records import CLIENT_HEADER
from livejoin.core.json_object import parse_object
from livejoin.errors import Rejected, RequestError, Unreachable

DEFAULT_URL = "http://127.0.0.1:10000/"
_AUTH_STATUSES = (401, 403)
_CHUNK_BYTES = 64 << 10


@dataclass(frozen=True)
class ClientProgram:
    """The program that sends requests: its name, and the hints of its errors."""

    name: str
    url_hint: str  # if no livejoin responds
    access_hint: str  # if access is denied


PYTHON = ClientProgram(
    "python",
    url_hint="Start one with `livejoin demo`, or use another URL.",
    access_hint="Pass connect() a token that is authorized, or set it in LIVEJOIN_TOKEN.",
)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns redirects into errors: urllib would send the token along."""

    def redirect_request(self, *_: Any) -> None:
        """Do not redirect."""


@dataclass(frozen=True)
class Endpoint:
    """URL and token of one livejoin."""

    url: str
    token: str | None = field(default=None, repr=False)
    program: ClientProgram = field(default=PYTHON, repr=False)
    timeout_s: float = 30  # livejoin responds within about 20

    def __post_init__(self) -> None:
        if not _is_http_url(self.url):
            raise RequestError(
                f"{self.url!r} is not an HTTP URL",
                hint=f"The default is {DEFAULT_URL}.",
            )
        # errors of the standard library would quote it
        if self.token and not (self.token.isascii() and self.token.isprintable()):
            raise RequestError(
                "the token is malformed: it has line breaks or characters that no token has",
                hint="Copy it again.",
            )

    @property
    def socket_url(self) -> str:
        """URL of the WebSocket."""
        return f"ws{self.url.removeprefix('http').rstrip('/')}/api/v1/live"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, and must be reached without a proxy."""
        return is_loopback(self.url)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that identify and authorize this client."""
        return {CLIENT_HEADER: self.program.name} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )

    def call(
        self, path: str, message: Mapping[str, Any] | None = None, *, expected_key: str = ""
    ) -> dict[str, Any]:
        """Send a GET, or a POST if there is a message; return the JSON object of the response.

        Without the expected key, if any, the server is not livejoin.
        """
        with self._open(path, message) as response:
            answer = parse_object(response.read())
        if answer is None or (expected_key and expected_key not in answer):
            raise self._unreachable("not a livejoin server")
        return answer

    def stream(self, path: str) -> Iterator[bytes]:
        """Send a GET; yield the body of the response in chunks."""
        with self._open(path, None) as response:
            while chunk := response.read(_CHUNK_BYTES):
                yield chunk

    def auth_error(self, status: int, reason: str) -> RequestError | None:
        """Return the error for status 401 or 403, or None for any other."""
        if status not in _AUTH_STATUSES:
            return None
        hint = self.program.access_hint if status == 401 or not self.token else ""
        return RequestError(f"livejoin at {self.url} denied access: {status} {reason}", hint=hint)

    @contextlib.contextmanager
    def _open(self, path: str, message: Mapping[str, Any] | None) -> Iterator[Any]:
        """Send a request and yield the response; its failures are RequestErrors."""
        body = None if message is None else json.dumps(message).encode()
        headers = {**self.headers, "content-type": "application/json"}
        url = f"{self.url.rstrip('/')}/{path}"
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
        opener = _build_opener(url)
        try:
            with opener.open(request, timeout=self.timeout_s) as response:
                yield response
        except urllib.error.HTTPError as error:
            with error:
                raise self._error_from(error) from error
        except (urllib.error.URLError, HTTPException, ValueError, OSError) as error:
            raise self._unreachable(getattr(error, "reason", None) or error) from error

    def _error_from(self, error: urllib.error.HTTPError) -> RequestError:
        if location := error.headers.get("location"):
            return self._unreachable(f"{error}, redirects to {location[:200]}")
        try:
            detail = str((parse_object(error.read()) or {})["detail"])
        except (KeyError, OSError, HTTPException):
            return self.auth_error(error.code, error.reason) or self._unreachable(error)
        if error.code == 422:
            return Rejected(f"rejected: {detail}")
        return self.auth_error(error.code, detail) or RequestError(detail)

    def _unreachable(self, reason: object) -> Unreachable:
        """Return the error for a server that does not respond as livejoin does."""
        return Unreachable(
            f"no livejoin responds at {self.url}: {reason}", hint=self.program.url_hint
        )


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine, judged by its text, without DNS."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))  # accepts 127.1
        except OSError:
            return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _build_opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener for a URL; `http_proxy` etc. apply to other machines only."""
    direct = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    return urllib.request.build_opener(_NoRedirects(), *direct)


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        complete = bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port or the brackets
        return False
    return complete and url.startswith(("http://", "https://"))
