"""Where a livejoin is and how to ask it over HTTP. The token goes there and nowhere else."""

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
_TIMEOUT_S = 30  # livejoin answers within about 20
_AUTH_STATUSES = (401, 403)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would take the token along."""

    def redirect_request(self, *_: Any) -> None:
        """Leave it an error."""


@dataclass(frozen=True)
class Endpoint:
    """One livejoin, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise AskError(
                f"{self.url!r} is no HTTP address",
                hint=f"livejoin's own is {DEFAULT_URL} unless it was set otherwise.",
            )

    @property
    def socket_url(self) -> str:
        """The address of the socket."""
        return f"ws{self.url.removeprefix('http').rstrip('/')}/api/v1/live"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy is of any use."""
        return proxies.is_loopback(self.url)

    @property
    def headers(self) -> dict[str, str]:
        """Who we are."""
        who = {CLIENT_HEADER: "python"}
        return who | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    def call(self, path: str, message: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask, and give back the JSON object that is answered."""
        body = None if message is None else json.dumps(message).encode()
        headers = {**self.headers, "content-type": "application/json"}
        url = f"{self.url.rstrip('/')}/{path}"
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
        opener = proxies.build_opener(url, _NoRedirects())
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._error_from(error) from error
        except (urllib.error.URLError, HTTPException, ValueError, OSError) as error:
            raise self.unreachable(getattr(error, "reason", None) or error) from error
        if not isinstance(found, dict):
            raise self.unreachable("it is something else")
        return found

    def unreachable(self, why: object) -> Unreachable:
        """What to raise when nobody answers."""
        return Unreachable(
            f"no livejoin answers at {self.url}: {why}",
            hint="Start one with `livejoin demo`, or name another address.",
        )

    def auth_error(self, status: int, why: str) -> AskError | None:
        """What to raise when an answer says that we may not."""
        if status not in _AUTH_STATUSES:
            return None
        hint = "Give connect() a token that may." if status == 401 or not self.token else ""
        return AskError(f"livejoin at {self.url} refuses: {status} {why}", hint=hint)

    def _error_from(self, error: urllib.error.HTTPError) -> AskError:
        try:
            detail = str(json.load(error)["detail"])
        except (ValueError, TypeError, KeyError, OSError):
            return self.auth_error(error.code, error.reason) or self.unreachable(error)
        if error.code == 422:
            return Rejected(f"rejected: {detail}")
        return self.auth_error(error.code, detail) or AskError(detail)
