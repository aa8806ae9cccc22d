"""`sasl.jaas.config`, Java's format of a login: parsed into properties, and formatted."""

import re
from collections.abc import Mapping

from livejoin.errors import SettingsError

OAUTH = "sasl.oauthbearer."
EXTENSIONS = f"{OAUTH}extensions"
PACKAGE = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
# The property of each JAAS option.
OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": f"{OAUTH}client.id",
    "clientSecret": f"{OAUTH}client.secret",
    "scope": f"{OAUTH}scope",
    "ssl.truststore.certificates": "https.ca.pem",
    "ssl.truststore.location": "https.ca.location",
}
_IGNORED = ("ssl.truststore.type", "ssl.truststore.password", "ssl.protocol")
_JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b", re.IGNORECASE
)
_OPTION = re.compile(
    r"""\s*(?P<name>[\w.]+)\s*=\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|(?P<bare>[^\s;"']+))"""
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def parse_jaas(jaas: str) -> dict[str, str]:
    """The properties of a JAAS configuration."""
    if not jaas.strip():
        return {}
    malformed = SettingsError(
        "kafka: sasl.jaas.config cannot be parsed",
        hint='Write it like `org…PlainLoginModule required username="…" password="…";`.',
    )
    if (begin := _JAAS.match(jaas)) is None:
        raise malformed
    module = begin["module"]
    mechanisms = [mechanism for mechanism, known in _MODULES.items() if known == module]
    if not mechanisms:
        known = ", ".join(name.rpartition(".")[2] for name in dict.fromkeys(_MODULES.values()))
        raise SettingsError(
            f"kafka: sasl.jaas.config names {module}, which is not supported",
            hint=f"Use one of {known} of {PACKAGE}.",
        )
    # the module of SCRAM has two mechanisms
    found = {"sasl.mechanism": mechanisms[0]} if len(mechanisms) == 1 else {}
    at = begin.end()
    while option := _OPTION.match(jaas, at):
        at, name = option.end(), option["name"]
        value = option["double"] or option["single"] or option["bare"] or ""
        value = re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), value)
        if name.startswith("extension_"):
            found[f"{EXTENSIONS}.{name.removeprefix('extension_')}"] = value
        elif name in OPTIONS:
            found[OPTIONS[name]] = value
        elif name not in _IGNORED:
            raise SettingsError(f"kafka: sasl.jaas.config has the unknown option {name}")
    if jaas[at:].strip() not in (";", ""):
        raise malformed
    return found


def format_jaas(mechanism: str, options: Mapping[str, str]) -> str:
    """A JAAS configuration; empty options are left out."""
    pairs = " ".join(f'{name}="{_escape(value)}"' for name, value in options.items() if value)
    return f"{_MODULES[mechanism]} required {pairs};"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
