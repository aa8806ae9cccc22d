"""Kafka's client properties: a block in Java's or librdkafka's names, for both libraries.

`client_properties` is the entry point. Unknown properties are errors that suggest the nearest name.
`read_file` reads `client.properties` files as Java does.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from livejoin import redaction
from livejoin.core.names import nearest
from livejoin.errors import SettingsError
from livejoin.kafka import bootstrap_servers, certificates, login, property_table

PROTOCOL = "security.protocol"
_CASE_INSENSITIVE = (PROTOCOL, "sasl.mechanism")
_ESCAPE_SEQUENCE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)

SERVERS = "bootstrap.servers"
SECTION = "kafka"  # the section of the settings with the block that is always there

Values = Mapping[str, str | SecretStr]  # secrets do not print


@dataclass(frozen=True)
class ClientProperties:
    """The properties for each client library, and warnings."""

    librdkafka: dict[str, str] = field(repr=False)
    java: dict[str, str] = field(repr=False)
    token_url: str = ""  # the only token endpoint that Java may contact for this block
    warnings: tuple[str, ...] = ()


def client_properties(given: Mapping[str, str], section: str = SECTION) -> ClientProperties:
    """Validate a block and translate it for both client libraries.

    Errors and warnings name the section of the settings that has the block.
    """
    try:
        found = _translate(given)
    except SettingsError as error:
        raise SettingsError(_in_section(error.message, section), hint=error.hint) from error
    return replace(found, warnings=tuple(_in_section(text, section) for text in found.warnings))


def jvm_options(token_urls: Iterable[str]) -> tuple[str, ...]:
    """Options of a JVM that runs Kafka clients: it contacts no other token endpoints."""
    urls = ",".join(dict.fromkeys(filter(None, token_urls)))
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}",) if urls else ()


def _in_section(text: str, section: str) -> str:
    """A message about a block that has another name; those of the parts say `kafka`."""
    return section + text.removeprefix(SECTION) if text.startswith(SECTION) else text


def _translate(given: Mapping[str, str]) -> ClientProperties:
    named = login.merge_jaas(_canonicalize(given))
    who = login.parse_login(named)
    translated = [login.as_properties(who, certificates.token_endpoint_ca(named))]
    if who.encrypted:
        translated.append(certificates.as_properties(certificates.load(named)))
    rdkafka: dict[str, str] = {}
    java: dict[str, str] = {}
    if SERVERS in named:
        named[SERVERS] = bootstrap_servers.normalize(named[SERVERS], named.get(PROTOCOL, ""))
    for name, value in named.items():
        to_rdkafka, to_java = _target_names(name)
        rdkafka |= {to_rdkafka: value} if to_rdkafka else {}
        java |= {to_java: value} if to_java else {}
    for sets in translated:
        rdkafka |= sets.librdkafka
        java |= sets.java
    redaction.add_secrets(_secrets(named, rdkafka, java, who))
    return ClientProperties(rdkafka, java, who.token_url, tuple(_warnings(named, who)))


def read_file(path: Path, section: str = SECTION) -> dict[str, str]:
    """The properties of a file; the last of duplicate keys counts."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(
            f"{section}_file: {path} cannot be read: {why}",
            hint="Name a file of client properties.",
        ) from error
    found = {}
    for line in _logical_lines(text):
        key, value = _KEY.findall(line)[0]
        found[canonical_name(_unescape(key))] = _unescape(value)
    return found


def reveal(values: Values) -> dict[str, str]:
    """The values with their secrets as plain text."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in values.items()
    }


def canonical_name(key: str) -> str:
    """A property's name as in the table: environment variables have underscores for dots."""
    for prefix in property_table.EXTENSIONS:
        if key.lower().startswith(prefix) and len(key) > len(prefix):
            return property_table.EXTENSION_PREFIX + key[len(prefix) :]
    name = key.lower()
    return name if name == "log_level" else name.replace("_", ".")


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown."""
    return canonical_name(name) in redaction.KAFKA_SECRETS


def _canonicalize(given: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.items():
        canonical = canonical_name(key)
        _check_known(canonical)
        name = property_table.ALIASES.get(canonical, canonical)
        normalized = value.upper() if name in _CASE_INSENSITIVE else value
        if found.get(name, normalized) != normalized:
            raise SettingsError(f"kafka: {name} is set twice, with different values")
        found[name] = normalized
    return found


def _check_known(name: str) -> None:
    for refused, why in property_table.REFUSED.items():
        if name == refused or (refused.endswith(".") and name.startswith(refused)):
            raise SettingsError(f"kafka.{name}: {why}")
    if name in property_table.KNOWN or name.startswith(property_table.EXTENSION_PREFIX):
        return
    close = nearest(name, property_table.KNOWN)
    raise SettingsError(
        f"kafka.{name} is not a Kafka client property"
        + (f": did you mean {close}?" if close else "")
    )


def _target_names(name: str) -> tuple[str, str]:
    """A property's name for librdkafka and for Java; empty where it is not passed on."""
    if name in property_table.BOTH:
        return name, name
    for java, rdkafka in property_table.RENAMED.items():
        if name in (java, rdkafka):
            return rdkafka, java
    if name in property_table.JAVA_ONLY:
        return "", name
    return (name, "") if name in property_table.LIBRDKAFKA_ONLY else ("", "")


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
        for name in sorted(property_table.MANAGED & named.keys())
    ]
    if who.protocol == "SASL_PLAINTEXT":
        found.append("kafka: with SASL_PLAINTEXT passwords and data travel unencrypted")
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """A backslash at the end continues a line."""
    continued = ""
    for line in text.splitlines():
        line = continued + line.lstrip()  # noqa: PLW2901
        if not continued and line.startswith(("#", "!")):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued = line[:-1]
            continue
        continued = ""
        if line:
            yield line
    if continued:
        yield continued


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        it = found[1]
        return chr(int(it[1:], 16)) if len(it) > 1 else _ESCAPES.get(it, it)

    return _ESCAPE_SEQUENCE.sub(one, text)
