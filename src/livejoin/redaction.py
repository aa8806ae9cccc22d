"""What is secret: the names and values of properties that hold a secret, and secrets in texts.

Code that reads a secret registers it here, so that it is redacted from log lines, status and errors
even in messages of libraries.
"""

import re
from collections.abc import Iterable

HIDDEN = "(hidden)"

# Properties of Kafka's clients that hold a secret, or may contain one. Exact names: their values
# are removed from every text, and are warned of if they are written in the settings file.
KAFKA_SECRETS = frozenset(
    {
        "basic.auth.user.info",
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.password",
        "schema.registry.basic.auth.user.info",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)

# Value of spark.redaction.regex, matched against names and values; it covers KAFKA_SECRETS. The
# first line is Spark's default, which the setting replaces.
SPARK_REDACTION_PATTERN = (
    "(?i)secret|password|token|access[.]?key"
    "|passphrase|credential|jaas|private[.]?key|ssl[.]key|keystore[.]key|[.]pem|signature"
    "|auth[.]user[.]info|oauthbearer[.]config"
)
_SPARK_REDACTION = re.compile(SPARK_REDACTION_PATTERN)

# Of a configuration that is printed to be shared, whatever sounds like a secret is hidden as well.
_SUSPICIOUS_NAME = re.compile(r"pass|key|pem", re.IGNORECASE)
_SUSPICIOUS_VALUE = re.compile(r"pass|secret|token|credential", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")

_MIN_CHARS = 6  # shorter ones occur in ordinary text, where redaction would reveal them
_secrets: set[str] = set()
_pattern = re.compile("(?!)")


def is_spark_secret(name: str, value: str) -> bool:
    """Whether a Spark property may hold a secret."""
    return bool(_SPARK_REDACTION.search(name) or _SPARK_REDACTION.search(value))


def may_be_secret(name: str, value: str) -> bool:
    """Whether a property of Kafka or Spark is hidden where a configuration is printed."""
    suspicious = _SUSPICIOUS_NAME.search(name) or _SUSPICIOUS_VALUE.search(value)
    return bool(suspicious or _SPARK_REDACTION.search(name))


def hide_url_login(value: str) -> str:
    """Return a value without the user and password of a URL."""
    return _URL_LOGIN.sub(HIDDEN, value)


def add_secrets(values: Iterable[str]) -> None:
    """Register secrets, which are redacted from now on."""
    global _pattern  # noqa: PLW0603 - one set of secrets per process
    _secrets.update(value for value in values if len(value) >= _MIN_CHARS)
    longest_first = sorted(_secrets, key=len, reverse=True)
    _pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def redact(text: str) -> str:
    """Return a text with all known secrets replaced."""
    return _pattern.sub(HIDDEN, text)
