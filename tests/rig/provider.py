"""A real identity provider: tokens by client credentials over TLS; it can be restarted."""

import base64
import contextlib
import json
import os
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from livejoin.runtime import jars, processes
from livejoin.runtime.broker import free_port
from rig.authority import Authority
from rig.running import until

_MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
_STORE = "for-the-test"
AUDIENCE = "kafka"


class Provider:
    """A provider at a fixed address, across restarts of its process."""

    def __init__(self, folder: Path, authority: Authority, *, subject: str, life_s: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._port = folder, free_port()
        self.issuer = f"https://127.0.0.1:{self._port}/livejoin"
        self._trusted = ssl.create_default_context(cadata=authority.pem)
        store = authority.sign("provider").pkcs12(folder / "provider.p12", _STORE)
        claims = {"sub": subject, "aud": [AUDIENCE], "scope": "kafka"}
        mapping = {"requestParam": "grant_type", "match": "client_credentials", "claims": claims}
        self._config: dict[str, Any] = {
            "httpServer": {
                "type": "NettyWrapper",
                "ssl": {
                    "keystoreFile": str(store), "keystoreType": "PKCS12",
                    "keystorePassword": _STORE, "keyPassword": _STORE,
                },
            },
            "tokenCallbacks": [
                {"issuerId": "livejoin", "tokenExpiry": life_s, "requestMappings": [mapping]}
            ],
        }  # fmt: skip
        self._process: processes.Child | None = None

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/token"

    @property
    def keys_url(self) -> str:
        return f"{self.issuer}/jwks"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        config = self.folder / "provider.json"
        config.write_text(json.dumps(self._config))
        classpath = os.pathsep.join(map(str, jars.jars("oidc")))
        self._process = processes.Child(
            [processes.find_java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, _MAIN],
            env={
                "JSON_CONFIG_PATH": str(config),
                "SERVER_PORT": str(self._port),
                "SERVER_HOSTNAME": "127.0.0.1",
                "LOG_LEVEL": "WARN",
            },
            log=self.folder / "provider.log",
        )
        until(self._answers, "the provider responds", 60)

    def _answers(self) -> bool:
        assert self._process is not None
        assert not self._process.exited, (self.folder / "provider.log").read_text()[-3000:]
        with contextlib.suppress(OSError):
            urllib.request.urlopen(self.keys_url, timeout=5, context=self._trusted).close()
            return True
        return False

    def rotate(self) -> None:
        """Use another signing key from the next start on."""
        numbers = rsa.generate_private_key(65537, 2048).private_numbers()
        public = numbers.public_numbers
        parts = {"n": public.n, "e": public.e, "d": numbers.d, "p": numbers.p, "q": numbers.q}
        parts |= {"dp": numbers.dmp1, "dq": numbers.dmq1, "qi": numbers.iqmp}
        key = {"kty": "RSA", "use": "sig", "kid": "rotated"}
        key |= {name: _base64(number) for name, number in parts.items()}
        self._config["tokenProvider"] = {
            "keyProvider": {"initialKeys": json.dumps(key), "algorithm": "RS256"}
        }

    def keys(self) -> str:
        """Return the public keys that verify tokens."""
        with urllib.request.urlopen(self.keys_url, timeout=5, context=self._trusted) as answer:
            return str(answer.read(), "utf-8")

    def stop(self) -> None:
        """Stop it; may be called twice."""
        if self._process is not None:
            self._process.close(grace_s=5)
            self._process = None


def _base64(number: int) -> str:
    raw = number.to_bytes((number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextlib.contextmanager
def provider(
    folder: Path, authority: Authority, *, subject: str = "livejoin", life_s: int = 3600
) -> Iterator[Provider]:
    """Run a provider until the end of the block."""
    one = Provider(folder, authority, subject=subject, life_s=life_s)
    one.start()
    try:
        yield one
    finally:
        one.stop()
