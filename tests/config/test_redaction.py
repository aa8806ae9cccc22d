"""Secrets are recognised in one place, for `livejoin config`, for Spark and for every text."""

import re

import pytest

from livejoin import redaction
from livejoin.config.sections import SparkSettings
from livejoin.kafka import properties, property_table

KAFKA_NAMES = sorted(property_table.KNOWN | redaction.KAFKA_SECRETS)
# `livejoin config` hides the value if its name contains one of these.
SECRET_WORDS = re.compile("pass|secret|token|credential|jaas|key|pem|signature", re.IGNORECASE)
# Spark hides the value if its name or the value contains one of these.
SPARK_HIDES = re.compile(
    "(?i)secret|password|token|access[.]?key"
    "|passphrase|credential|jaas|private[.]?key|ssl[.]key|keystore[.]key|[.]pem|signature"
)
KAFKA_SECRETS = {
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
SPARK_SECRETS = (
    "spark.authenticate.secret",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.azure.account.oauth2.client.secret",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.javax.jdo.option.ConnectionPassword",
    "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.kubernetes.authenticate.oauthToken",
    "spark.ssl.keyPassword",
    "spark.ssl.keyStorePassword",
    "spark.ssl.trustStorePassword",
    "spark.ui.passphrase",
    "spark.ssl.key.pem",
    "spark.url.signature",
)
SPARK_PLAIN = (
    "spark.driver.memory",
    "spark.executor.cores",
    "spark.hadoop.fs.s3a.endpoint",
    "spark.sql.session.timeZone",
    "spark.ui.port",
)


def test_all_kafka_secrets_are_known() -> None:
    assert redaction.KAFKA_SECRETS >= KAFKA_SECRETS


@pytest.mark.parametrize("name", KAFKA_NAMES)
def test_a_kafka_property_is_hidden_everywhere_or_nowhere(name: str) -> None:
    secret = name in KAFKA_SECRETS
    assert properties.is_secret(name) == secret
    assert properties.is_secret(name.replace(".", "_").upper()) == secret
    assert redaction.may_be_secret(name, "x") == bool(secret or SECRET_WORDS.search(name))
    if secret or SPARK_HIDES.search(
        name
    ):  # Spark shows the options of its Kafka clients under this name
        assert redaction.is_spark_secret(f"kafka.{name}", "x")


@pytest.mark.parametrize("name", SPARK_SECRETS)
def test_a_spark_secret_is_hidden_everywhere(name: str) -> None:
    assert redaction.is_spark_secret(name, "x")
    assert redaction.may_be_secret(name, "x")
    conf = SparkSettings(conf={name: "canary"}).conf
    assert "canary" not in repr(conf)


@pytest.mark.parametrize("name", SPARK_PLAIN)
def test_other_spark_properties_are_shown(name: str) -> None:
    assert not redaction.is_spark_secret(name, "4g")
    assert not redaction.may_be_secret(name, "4g")


@pytest.mark.parametrize("word", ["pass", "secret", "token", "credential"])
def test_a_value_that_contains_a_secret_word_is_hidden_in_printed_settings(word: str) -> None:
    assert redaction.may_be_secret("client.id", f"-Dx.{word.title()}=a")


@pytest.mark.parametrize(
    "value",
    ["-Dx.trustStorePassword=a", "-Da=private.key", "-Dsasl.jaas.config=x", "-Dx=/a.pem", "secret"],
)
def test_a_spark_property_with_a_secret_value_is_hidden(value: str) -> None:
    assert redaction.is_spark_secret("spark.driver.extraJavaOptions", value)


def test_the_login_in_a_url_is_hidden() -> None:
    assert redaction.hide_url_login("s3a://who:pw@bucket/x") == f"s3a://{redaction.HIDDEN}@bucket/x"
    assert redaction.hide_url_login("s3a://bucket/x@y") == "s3a://bucket/x@y"
