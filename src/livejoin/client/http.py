"""HTTP requests of the command line to a running livejoin."""

import contextlib
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any

from livejoin.client import credentials, proxies
from livejoin.core.control_records import CLIENT_HEADER
from livejoin.errors import AskError, Rejected
from livejoin.runtime.terminal import escape_unprintable

DEFAULT_URL = "http://127.0.0.1:10000/"
_TIMEOUT_S = 30
_POLL_S = 0.2
_CHUNK_BYTES = 64 << 10


def get(url: str, path: str, expected_key: str) -> dict[str, Any]:
    """Return a JSON object. Without the expected key the server is not livejoin."""
    answer = _request_json(url, path, None)
    if expected_key not in answer:
        raise _unreachable(url, "not a livejoin server")
    return answer


def post(url: str, path: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Post a JSON object, and return the one in the response."""
    return _request_json(url, path, json.dumps(message).encode())


def wait_for_generation(url: str, generation: int, limit_s: float) -> dict[str, Any]:
    """Wait until a generation is live or ended, and return its row of `generations`."""
    deadline = time.monotonic() + limit_s
    printed = ""
    while True:
        rows = get(url, "api/v1/generations", "generations")["generations"]
        row = next((row for row in rows if row["generation"] == generation), None)
        if row is not None and row["state"] not in ("building", "caught-up"):
            _print_progress("")
            return dict(row)
        status = get(url, "api/v1/status", "message")
        if status["message"] != printed:
            printed = status["message"]
            _print_progress(printed)
        if time.monotonic() > deadline:
            raise AskError(
                f"generation {generation} is still being built after {limit_s:.0f} s",
                hint="The build continues; `livejoin status` shows its progress.",
            )
        time.sleep(_POLL_S)


def _print_progress(text: str) -> None:
    """Overwrite the progress line, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{escape_unprintable(text)}", end="", file=sys.stderr, flush=True)


def stream(url: str, path: str) -> Iterator[bytes]:
    """Yield a large response in chunks."""
    with _translate_errors(url), _open(url, path, None) as response:
        while chunk := response.read(_CHUNK_BYTES):
            yield chunk


def _request_json(url: str, path: str, body: bytes | None) -> dict[str, Any]:
    with _translate_errors(url), _open(url, path, body) as response:
        answer = json.load(response)
    if not isinstance(answer, dict):
        raise _unreachable(url, "not a livejoin server")
    return answer


def _open(url: str, path: str, body: bytes | None) -> Any:
    if not url.startswith(("http://", "https://")):
        raise _unreachable(url, "not an HTTP URL")
    headers = {"content-type": "application/json", CLIENT_HEADER: "cli"}
    request = urllib.request.Request(f"{url.rstrip('/')}/{path}", body, headers)  # noqa: S310 - checked above
    if token := credentials.find_token(url):
        # apart from the others: a redirect must not send it along
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return proxies.build_opener(url).open(request, timeout=_TIMEOUT_S)


@contextlib.contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Raise errors of HTTP and the network as AskError."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise _error_from(url, error) from error
    except (urllib.error.URLError, HTTPException, ValueError, OSError) as error:
        raise _unreachable(url, getattr(error, "reason", None) or error) from error


def _error_from(url: str, error: urllib.error.HTTPError) -> AskError:
    try:
        detail = json.load(error)["detail"]
    except (ValueError, TypeError, KeyError, OSError):
        return _unreachable(url, error)
    if error.code == 401:
        hint = f"Set a token in the environment variable {credentials.ENVIRONMENT_VARIABLE}."
        return AskError(f"livejoin at {url} denied access: {detail}", hint=hint)
    return Rejected(f"rejected: {detail}") if error.code == 422 else AskError(detail)


def _unreachable(url: str, reason: object) -> AskError:
    hint = "Start one with `livejoin demo`, or set its URL with --url."
    return AskError(f"no livejoin responds at {url}: {reason}", hint=hint)
