"""Tokens that this user has for livejoins elsewhere, by address, in a file of their own."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from livejoin.runtime import processes

ENVIRONMENT_VARIABLE = "LIVEJOIN_TOKEN"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def path() -> Path:
    """Where they are."""
    return processes.config_folder() / "credentials.json"


def find_token(url: str) -> str | None:
    """The token for an address: the environment's, or the one that is kept for just that."""
    return os.environ.get(ENVIRONMENT_VARIABLE, "").strip() or stored_token(url)


def stored_token(url: str) -> str | None:
    """The token that is kept for an address."""
    return _read().get(_key(url))


def store_token(url: str, text: str) -> None:
    """Keep a token for an address; nobody else can read it."""
    where = path()
    where.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    known = _read() | {_key(url): text}
    with tempfile.NamedTemporaryFile("w", dir=where.parent, delete=False) as new:  # of mode 0600
        json.dump(known, new, indent=1)
    Path(new.name).rename(where)


def _read() -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = json.loads(path().read_text())
        if isinstance(found, dict):
            return {key: text for key, text in found.items() if isinstance(text, str)}
    return {}


def _key(url: str) -> str:
    """What two spellings of one address share; the path may be a proxy's, and tell two apart."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path.rstrip('/')}"
