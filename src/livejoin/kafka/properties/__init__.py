"""Kafka's client properties: one block, in Java's or librdkafka's names, for both libraries.

`client_properties` is the entry point. Unknown properties are errors that suggest the nearest name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from livejoin import redaction
from livejoin.core.names import nearest
from livejoin.errors import SettingsError
from livejoin.kafka.properties import certificates, login, table
from livejoin.kafka.properties.properties_file import read_file
from livejoin.kafka.properties.table import EXTENSION_PREFIX, canonical_name, is_secret
from livejoin.kafka.properties.values import Values, reveal

__all__ = [
    "ClientProperties",
    "Values",
    "canonical_name",
    "client_properties",
    "is_secret",
    "read_file",
    "reveal",
]

_CASE_INSENSITIVE = ("security.protocol", "sasl.mechanism")


@dataclass(frozen=True)
class ClientProperties:
    """The properties for each client library, and warnings."""

    librdkafka: dict[str, str] = field(repr=False)
    java: dict[str, str] = field(repr=False)
    java_options: tuple[str, ...] = ()  # of JVMs that run Kafka clients
    warnings: tuple[str, ...] = ()


def client_properties(given: Mapping[str, str]) -> ClientProperties:
    """Validate a block and translate it for both client libraries."""
    named = login.merge_jaas(_canonicalize(given))
    who = login.parse_login(named)
    translated = [login.as_properties(who, certificates.token_endpoint_ca(named))]
    if who.encrypted:
        translated.append(certificates.as_properties(certificates.load(named)))
    rdkafka: dict[str, str] = {}
    java: dict[str, str] = {}
    for name, value in named.items():
        to_rdkafka, to_java = _target_names(name)
        rdkafka |= {to_rdkafka: value} if to_rdkafka else {}
        java |= {to_java: value} if to_java else {}
    for sets in translated:
        rdkafka |= sets.librdkafka
        java |= sets.java
    redaction.add_secrets(_secrets(named, rdkafka, java, who))
    return ClientProperties(rdkafka, java, _jvm_options(who), tuple(_warnings(named, who)))


def _canonicalize(given: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.items():
        canonical = canonical_name(key)
        _check_known(canonical)
        name = table.ALIASES.get(canonical, canonical)
        normalized = value.upper() if name in _CASE_INSENSITIVE else value
        if found.get(name, normalized) != normalized:
            raise SettingsError(f"kafka: {name} is set twice, with different values")
        found[name] = normalized
    return found


def _check_known(name: str) -> None:
    for refused, why in table.REFUSED.items():
        if name == refused or (refused.endswith(".") and name.startswith(refused)):
            raise SettingsError(f"kafka.{name}: {why}")
    if name in table.KNOWN or name.startswith(EXTENSION_PREFIX):
        return
    close = nearest(name, table.KNOWN)
    raise SettingsError(
        f"kafka.{name} is not a Kafka client property"
        + (f": did you mean {close}?" if close else "")
    )


def _target_names(name: str) -> tuple[str, str]:
    """A property's name for librdkafka and for Java; empty where it is not passed on."""
    if name in table.BOTH:
        return name, name
    for java, rdkafka in table.RENAMED.items():
        if name in (java, rdkafka):
            return rdkafka, java
    if name in table.JAVA_ONLY:
        return "", name
    return (name, "") if name in table.LIBRDKAFKA_ONLY else ("", "")


def _jvm_options(who: login.Login) -> tuple[str, ...]:
    """Java contacts only token endpoints that are allowed by a system property."""
    if not who.token_url:
        return ()
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={who.token_url}",)


def _secrets(
    named: Mapping[str, str],
    rdkafka: Mapping[str, str],
    java: Mapping[str, str],
    who: login.Login,
) -> list[str]:
    secrets = [
        value
        for block in (named, rdkafka, java)
        for name, value in block.items()
        if is_secret(name)
    ]
    return [*secrets, who.password]


def _warnings(named: Mapping[str, str], who: login.Login) -> list[str]:
    found = [
        f"kafka.{name} is ignored: livejoin sets it itself"
        for name in sorted(table.MANAGED & named.keys())
    ]
    if who.protocol == "SASL_PLAINTEXT":
        found.append("kafka: with SASL_PLAINTEXT passwords and data travel unencrypted")
    return found
