"""HTTP requests to one livejoin. Its token is sent to that URL only."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from livejoin.client import proxies
from livejoin.core.control_records import CLIENT_HEADER
from livejoin.errors import AskError, Rejected, Unreachable

DEFAULT_URL = "http://127.0.0.1:10000/"
_TIMEOUT_S = 30  # livejoin responds within about 20
_AUTH_STATUSES = (401, 403)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns redirects into errors: urllib would send the token along."""

    def redirect_request(self, *_: Any) -> None:
        """Do not redirect."""


@dataclass(frozen=True)
class Endpoint:
    """URL and token of one livejoin."""

    url: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise AskError(
                f"{self.url!r} is not an HTTP URL",
                hint=f"The default is {DEFAULT_URL}.",
            )

    @property
    def socket_url(self) -> str:
        """URL of the WebSocket."""
        return f"ws{self.url.removeprefix('http').rstrip('/')}/api/v1/live"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, and must be reached without a proxy."""
        return proxies.is_loopback(self.url)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that identify and authorize this client."""
        return {CLIENT_HEADER: "python"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )

    def call(self, path: str, message: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a GET, or a POST if there is a message; return the JSON object of the response."""
        body = None if message is None else json.dumps(message).encode()
        headers = {**self.headers, "content-type": "application/json"}
        url = f"{self.url.rstrip('/')}/{path}"
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
        opener = proxies.build_opener(url, _NoRedirects())
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise self._error_from(error) from error
        except (urllib.error.URLError, HTTPException, ValueError, OSError) as error:
            raise self.unreachable(getattr(error, "reason", None) or error) from error
        if not isinstance(answer, dict):
            raise self.unreachable("not a livejoin server")
        return answer

    def unreachable(self, reason: object) -> Unreachable:
        """Return the error for a server that does not respond as livejoin does."""
        return Unreachable(
            f"no livejoin responds at {self.url}: {reason}",
            hint="Start one with `livejoin demo`, or use another URL.",
        )

    def auth_error(self, status: int, reason: str) -> AskError | None:
        """Return the error for status 401 or 403, or None for any other."""
        if status not in _AUTH_STATUSES:
            return None
        hint = (
            "Pass connect() a token that is authorized." if status == 401 or not self.token else ""
        )
        return AskError(f"livejoin at {self.url} denied access: {status} {reason}", hint=hint)

    def _error_from(self, error: urllib.error.HTTPError) -> AskError:
        try:
            detail = str(json.load(error)["detail"])
        except (ValueError, TypeError, KeyError, OSError):
            return self.auth_error(error.code, error.reason) or self.unreachable(error)
        if error.code == 422:
            return Rejected(f"rejected: {detail}")
        return self.auth_error(error.code, detail) or AskError(detail)
