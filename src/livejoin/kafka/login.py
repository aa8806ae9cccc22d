"""Logins: security protocol and SASL, from the properties of either client library for both.

`sasl.jaas.config` is parsed, so that librdkafka gets what a Java block contains, and formatted
again for Java. A block that would send a password or token unencrypted is refused unless it names
SASL_PLAINTEXT itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlparse

from livejoin.errors import SettingsError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_OAUTH = "sasl.oauthbearer."
_EXTENSIONS = f"{_OAUTH}extensions"
_PACKAGE = "org.apache.kafka.common.security"
_HANDLER = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
_HANDLERS = ("", _HANDLER, f"{_PACKAGE}.oauthbearer.secured.OAuthBearerLoginCallbackHandler")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

_MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
# The property of each JAAS option.
_JAAS_OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": f"{_OAUTH}client.id",
    "clientSecret": f"{_OAUTH}client.secret",
    "scope": f"{_OAUTH}scope",
    "ssl.truststore.certificates": "https.ca.pem",
    "ssl.truststore.location": "https.ca.location",
}
_IGNORED_JAAS_OPTIONS = ("ssl.truststore.type", "ssl.truststore.password", "ssl.protocol")
_JAAS_START = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?P<flag>required|requisite|sufficient|optional)\b", re.IGNORECASE
)
_JAAS_OPTION = re.compile(
    r"""\s*(?P<name>[\w.]+)\s*=\s*(?:"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'|(?P<bare>[^\s;"']+))"""
)
_JAAS_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class PropertySets(NamedTuple):
    """Properties for each client library."""

    librdkafka: dict[str, str]
    java: dict[str, str]


@dataclass(frozen=True)
class Login:
    """A login. The mechanism decides which fields are set."""

    protocol: str
    mechanism: str = ""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token_url: str = ""
    scope: str = ""
    subject: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.protocol.endswith("SSL")


def merge_jaas(given: Mapping[str, str]) -> dict[str, str]:
    """A block with the properties of its JAAS configuration."""
    from_jaas = _parse_jaas(given.get("sasl.jaas.config", ""))
    for name, value in from_jaas.items():
        if given.get(name, value) != value:
            raise SettingsError(f"kafka: {name} and sasl.jaas.config contradict each other")
    return {**from_jaas, **given}


def parse_login(given: Mapping[str, str]) -> Login:
    """The login of a block that was merged with its JAAS configuration."""
    protocol = _protocol(given)
    if not protocol.startswith("SASL"):
        return Login(protocol)
    mechanism = _mechanism(given)
    if mechanism != "OAUTHBEARER":
        name, password = _require(given, mechanism, "sasl.username", "sasl.password")
        return Login(protocol, mechanism, name, password)
    return _oauth(given, protocol)


def _oauth(given: Mapping[str, str], protocol: str) -> Login:
    if given.get(f"{_OAUTH}method", "oidc").lower() != "oidc":
        raise SettingsError(
            f"kafka: {_OAUTH}method can only be oidc", hint="Tokens come from a token endpoint."
        )
    if given.get(f"{_OAUTH}grant.type", "client_credentials").lower() != "client_credentials":
        raise SettingsError(f"kafka: {_OAUTH}grant.type can only be client_credentials")
    if given.get("sasl.login.callback.handler.class", "") not in _HANDLERS:
        raise SettingsError(
            "kafka: this sasl.login.callback.handler.class is not supported",
            hint=f"Leave it out, or set it to {_HANDLER}.",
        )
    names = [f"{_OAUTH}{name}" for name in ("client.id", "client.secret", "token.endpoint.url")]
    client, secret, url = _require(given, "OAUTHBEARER", *names)
    address = urlparse(url)
    if address.scheme != "https" and address.hostname not in _LOOPBACK:
        raise SettingsError(
            f"kafka: {names[2]} is {url}: the client's secret would travel unencrypted",
            hint="Use an https URL.",
        )
    return Login(
        protocol,
        "OAUTHBEARER",
        client,
        secret,
        url,
        given.get(f"{_OAUTH}scope", ""),
        given.get(f"{_OAUTH}sub.claim.name", ""),
        _extensions(given),
    )


def as_properties(login: Login, provider_ca: str) -> PropertySets:
    """The login for each client library.

    `provider_ca` contains the CA certificates of the token endpoint as PEM; empty: the system's.
    """
    if not login.mechanism:
        same = {"security.protocol": login.protocol}
        return PropertySets(same, same)
    same = {"security.protocol": login.protocol, "sasl.mechanism": login.mechanism}
    if login.mechanism != "OAUTHBEARER":
        own = {"sasl.username": login.username, "sasl.password": login.password}
        options = {"username": login.username, "password": login.password}
        return PropertySets(
            same | own, same | {"sasl.jaas.config": _format_jaas(login.mechanism, options)}
        )
    subject = {f"{_OAUTH}sub.claim.name": login.subject} if login.subject else {}
    same |= {f"{_OAUTH}token.endpoint.url": login.token_url, **subject}
    extensions = ",".join(f"{name}={value}" for name, value in login.extensions)
    own = {
        f"{_OAUTH}method": "oidc",
        f"{_OAUTH}client.id": login.username,
        f"{_OAUTH}client.secret": login.password,
        f"{_OAUTH}scope": login.scope,
        _EXTENSIONS: extensions,
        "https.ca.pem": provider_ca,
    }
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": provider_ca}
    options = {
        # Kafka ignores it. When Spark logs this property it hides only the text between
        # `password="` and the last quote, whatever `spark.redaction.regex` is.
        "password": "-",
        "clientId": login.username,
        "clientSecret": login.password,
        "scope": login.scope,
        **{f"extension_{name}": value for name, value in login.extensions},
        **(trusted if provider_ca else {}),
    }
    java = {
        "sasl.jaas.config": _format_jaas(login.mechanism, options),
        "sasl.login.callback.handler.class": _HANDLER,
    }
    return PropertySets(same | {name: value for name, value in own.items() if value}, same | java)


def _protocol(given: Mapping[str, str]) -> str:
    protocol = given.get("security.protocol", "").upper()
    sasl = sorted(name for name in given if name.startswith("sasl."))
    ssl = sorted(name for name in given if name.startswith(("ssl.", "enable.ssl.")))
    if protocol and protocol not in PROTOCOLS:
        raise SettingsError(
            f"kafka: security.protocol is {protocol}", hint=f"Use one of {', '.join(PROTOCOLS)}."
        )
    if sasl and not protocol.startswith("SASL"):
        raise SettingsError(
            f"kafka: {sasl[0]} is set, but security.protocol is {protocol or 'not'}",
            hint="Set security.protocol: SASL_SSL; there is no fallback to an open connection.",
        )
    if ssl and not protocol.endswith("SSL"):
        wanted = "SASL_SSL" if sasl else "SSL"
        raise SettingsError(
            f"kafka: {ssl[0]} is set, but security.protocol is {protocol or 'not'}",
            hint=f"Set security.protocol: {wanted}; there is no fallback to an open connection.",
        )
    return protocol or "PLAINTEXT"


def _mechanism(given: Mapping[str, str]) -> str:
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise SettingsError(
            f"kafka: sasl.mechanism is {mechanism or 'not set'}",
            hint=f"Use one of {', '.join(MECHANISMS)}.",
        )
    return mechanism


def _require(given: Mapping[str, str], mechanism: str, *names: str) -> list[str]:
    for name in names:
        if not given.get(name):
            in_jaas = [option for option, known in _JAAS_OPTIONS.items() if known == name]
            also = f" (or {in_jaas[0]} in sasl.jaas.config)" if in_jaas else ""
            raise SettingsError(f"kafka: {mechanism} needs {name}{also}")
    return [given[name] for name in names]


def _extensions(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in given.get(_EXTENSIONS, "").split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise SettingsError(
                f"kafka: {_EXTENSIONS} contains {pair!r}", hint="Write NAME=VALUE,NAME=VALUE."
            )
        found[name] = value
    prefix = f"{_EXTENSIONS}."
    found |= {n.removeprefix(prefix): v for n, v in given.items() if n.startswith(prefix)}
    for name, value in found.items():
        # RFC 7628, and Kafka's format of it
        if not re.fullmatch(r"[A-Za-z]+", name) or name == "auth" or "," in value:
            raise SettingsError(f"kafka: {name!r} cannot be an extension of OAUTHBEARER")
    return tuple(sorted(found.items()))


def _parse_jaas(jaas: str) -> dict[str, str]:
    """The properties of a JAAS configuration."""
    if not jaas.strip():
        return {}
    malformed = SettingsError(
        "kafka: sasl.jaas.config cannot be parsed",
        hint='Write it like `org…PlainLoginModule required username="…" password="…";`.',
    )
    if (begin := _JAAS_START.match(jaas)) is None:
        raise malformed
    module = begin["module"]
    mechanisms = [mechanism for mechanism, known in _MODULES.items() if known == module]
    if not mechanisms:
        known = ", ".join(name.rpartition(".")[2] for name in dict.fromkeys(_MODULES.values()))
        raise SettingsError(
            f"kafka: sasl.jaas.config names {module}, which is not supported",
            hint=f"Use one of {known} of {_PACKAGE}.",
        )
    # the module of SCRAM has two mechanisms
    found = {"sasl.mechanism": mechanisms[0]} if len(mechanisms) == 1 else {}
    at = begin.end()
    while option := _JAAS_OPTION.match(jaas, at):
        at, name = option.end(), option["name"]
        value = option["double"] or option["single"] or option["bare"] or ""
        value = re.sub(r"\\(.)", lambda found: _JAAS_ESCAPES.get(found[1], found[1]), value)
        if name.startswith("extension_"):
            found[f"{_EXTENSIONS}.{name.removeprefix('extension_')}"] = value
        elif name in _JAAS_OPTIONS:
            found[_JAAS_OPTIONS[name]] = value
        elif name not in _IGNORED_JAAS_OPTIONS:
            raise SettingsError(f"kafka: sasl.jaas.config has the unknown option {name}")
    if jaas[at:].strip() not in (";", ""):
        raise malformed
    return found


def _format_jaas(mechanism: str, options: Mapping[str, str]) -> str:
    """A JAAS configuration; empty options are left out."""
    pairs = " ".join(f'{name}="{_escape_jaas(value)}"' for name, value in options.items() if value)
    return f"{_MODULES[mechanism]} required {pairs};"


def _escape_jaas(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
