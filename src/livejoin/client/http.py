"""Talks to a running livejoin over HTTP, for the command line."""

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
from livejoin.runtime.terminal import escaped

DEFAULT_URL = "http://127.0.0.1:10000/"
_ANSWER_S = 30
_LOOK_S = 0.2
_PIECE_BYTES = 64 << 10


def get(url: str, path: str, expected: str) -> dict[str, Any]:
    """Read something that has a certain key; whatever has not is no livejoin."""
    found = _answer(url, path, None)
    if expected not in found:
        raise _nobody(url, "it is something else")
    return found


def post(url: str, path: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for something."""
    return _answer(url, path, json.dumps(message).encode())


def follow(url: str, generation: int, limit_s: float) -> dict[str, Any]:
    """Wait until a generation is live or has come to an end; its row of `generations`."""
    until = time.monotonic() + limit_s
    shown = ""
    while True:
        rows = get(url, "api/v1/generations", "generations")["generations"]
        row = next((row for row in rows if row["generation"] == generation), None)
        if row is not None and row["state"] not in ("building", "caught-up"):
            _progress("")
            return dict(row)
        status = get(url, "api/v1/status", "message")
        if status["message"] != shown:
            shown = status["message"]
            _progress(shown)
        if time.monotonic() > until:
            raise AskError(
                f"generation {generation} is still being built after {limit_s:.0f} s",
                hint="It goes on; `livejoin status` shows how far it is.",
            )
        time.sleep(_LOOK_S)


def _progress(text: str) -> None:
    """One line that is written over, for a person who watches."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{escaped(text)}", end="", file=sys.stderr, flush=True)


def pieces(url: str, path: str) -> Iterator[bytes]:
    """Read something large, as it comes."""
    with _failures(url), _opened(url, path, None) as answer:
        while part := answer.read(_PIECE_BYTES):
            yield part


def _answer(url: str, path: str, body: bytes | None) -> dict[str, Any]:
    with _failures(url), _opened(url, path, body) as answer:
        found = json.load(answer)
    if not isinstance(found, dict):
        raise _nobody(url, "it is something else")
    return found


def _opened(url: str, path: str, body: bytes | None) -> Any:
    if not url.startswith(("http://", "https://")):
        raise _nobody(url, "it is no HTTP address")
    headers = {"content-type": "application/json", CLIENT_HEADER: "cli"}
    request = urllib.request.Request(f"{url.rstrip('/')}/{path}", body, headers)  # noqa: S310 - checked above
    if token := credentials.token(url):
        # not with the others: a redirect would take it along
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return proxies.opener(url).open(request, timeout=_ANSWER_S)


@contextlib.contextmanager
def _failures(url: str) -> Iterator[None]:
    """What goes wrong on the way, as an error of ours."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from error
    except (urllib.error.URLError, HTTPException, ValueError, OSError) as error:
        raise _nobody(url, getattr(error, "reason", None) or error) from error


def _refused(url: str, error: urllib.error.HTTPError) -> AskError:
    try:
        detail = json.load(error)["detail"]
    except (ValueError, TypeError, KeyError, OSError):
        return _nobody(url, error)
    if error.code == 401:
        hint = f"Give a token in the environment variable {credentials.VARIABLE}."
        return AskError(f"livejoin at {url} refuses: {detail}", hint=hint)
    return Rejected(f"rejected: {detail}") if error.code == 422 else AskError(detail)


def _nobody(url: str, why: object) -> AskError:
    hint = "Start one with `livejoin demo`, or name it with --url."
    return AskError(f"no livejoin answers at {url}: {why}", hint=hint)
