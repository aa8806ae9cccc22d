"""The bootstrap servers of a block, in the form that both client libraries take.

librdkafka assumes a port where there is none, and ignores a server that it cannot parse, or that
names another protocol than the block. Java fails on the first two and ignores the protocol.
"""

import re
from typing import NamedTuple

from livejoin import redaction
from livejoin.errors import SettingsError

_DEFAULT_PORT = 9092
_MAX_PORT = 65535
# the characters that Java takes
_SERVER = re.compile(
    r"((?P<protocol>PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?"
    r"(\[(?P<address>[0-9A-F:.%]+)\]|(?P<host>[A-Z0-9._%-]+))"
    r"(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)


class Server(NamedTuple):
    """A bootstrap server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str, protocol: str = "") -> list[Server]:
    """The servers of a block with this security protocol; empty: not set."""
    return [_parse_one(one, protocol) for one in map(str.strip, text.split(",")) if one]


def normalize(text: str, protocol: str = "") -> str:
    """The same servers, each with its port and without protocol."""
    return ",".join(map(str, parse(text, protocol)))


def _parse_one(text: str, protocol: str) -> Server:
    found = _SERVER.fullmatch(text)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _MAX_PORT:
        raise SettingsError(
            f"kafka: bootstrap.servers has {redaction.hide_url_login(text)!r}",
            hint="Write HOST:PORT,HOST:PORT.",
        )
    named = (found["protocol"] or "").upper()
    if named and named != (protocol or "PLAINTEXT"):
        raise SettingsError(
            f"kafka: bootstrap.servers has {named}://, but security.protocol is"
            f" {protocol or 'not set'}",
            hint=f"Set security.protocol: {named}, or leave it out of the address.",
        )
    return Server(found["address"] or found["host"], port)
