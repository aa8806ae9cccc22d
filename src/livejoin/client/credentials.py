"""Which livejoin to ask, and with which token: what the environment and the user's file say.

The file has tokens by server URL, and only the user can read it. The Python client and the command
line look in the same places.
"""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from livejoin.client.endpoint import DEFAULT_URL
from livejoin.core.json_object import parse_object
from livejoin.runtime import processes

ENVIRONMENT_VARIABLE = "LIVEJOIN_TOKEN"
URL_VARIABLE = "LIVEJOIN_URL"
_DEFAULT_PORTS = {"http": 80, "https": 443}


def path() -> Path:
    """Return the path of the credentials file."""
    return processes.config_folder() / "credentials.json"


def find_url() -> str:
    """Return the URL in the environment, or the default."""
    return os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL


def find_token(url: str) -> str | None:
    """Return the token for a URL: the one in the environment, or the stored one."""
    return os.environ.get(ENVIRONMENT_VARIABLE, "").strip() or stored_token(url)


def stored_token(url: str) -> str | None:
    """Return the token that is stored for a URL."""
    # a service without a home, or without access to it, has stored none
    with contextlib.suppress(OSError, RuntimeError):
        return _read().get(_key(url))
    return None


def store_token(url: str, token: str) -> None:
    """Store a token for a URL."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    tokens = _read() | {_key(url): token}
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as new:  # mode 0600
        json.dump(tokens, new, indent=1)
    Path(new.name).rename(file)


def _read() -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError):
        tokens = parse_object(path().read_bytes()) or {}
        return {url: token for url, token in tokens.items() if isinstance(token, str)}
    return {}


def _key(url: str) -> str:
    """Normalize a URL. Its path is kept: behind a proxy it tells servers apart."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path.rstrip('/')}"
