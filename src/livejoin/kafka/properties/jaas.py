"""`sasl.jaas.config`, Java's way to write a login: taken apart into properties, and made anew."""

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
# What a JAAS option is called among the properties.
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
    """A JAAS configuration as properties."""
    if not jaas.strip():
        return {}
    unlike = SettingsError(
        "kafka: sasl.jaas.config cannot be read",
        hint='It should read like `org…PlainLoginModule required username="…" password="…";`.',
    )
    if (begin := _JAAS.match(jaas)) is None:
        raise unlike
    module = begin["module"]
    mechanisms = [mechanism for mechanism, known in _MODULES.items() if known == module]
    if not mechanisms:
        known = ", ".join(name.rpartition(".")[2] for name in dict.fromkeys(_MODULES.values()))
        raise SettingsError(
            f"kafka: sasl.jaas.config names {module}, which livejoin does not know",
            hint=f"Known are {known} of {PACKAGE}.",
        )
    # which of the SCRAM mechanisms it is, the module does not tell
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
            raise SettingsError(f"kafka: sasl.jaas.config has the option {name}, which is unknown")
    if jaas[at:].strip() not in (";", ""):
        raise unlike
    return found


def format_jaas(mechanism: str, options: Mapping[str, str]) -> str:
    """A JAAS configuration; options without a value are left out."""
    said = " ".join(f'{name}="{_escape(value)}"' for name, value in options.items() if value)
    return f"{_MODULES[mechanism]} required {said};"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
