"""Spark's configuration: secrets, JVM options, network."""

import re
from pathlib import Path

import pytest

from livejoin import redaction
from livejoin.config.sections import SparkSettings
from livejoin.errors import MachineError
from livejoin.pipeline.spark_driver import SparkDriver, _listen_on_loopback_only, _properties_file

FLAG = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://login.example/token"


def _conf(**given: str) -> dict[str, str]:
    session = SparkDriver(
        SparkSettings(conf=given), lock=0, log=Path("spark.log"), java_options=[FLAG]
    )
    return session._conf("java")


def test_driver_and_executors_are_allowed_to_use_the_token_endpoint() -> None:
    own = {"spark.executor.extraJavaOptions": "-Dmine=1"}
    conf = _conf(**own)
    assert FLAG in conf["spark.driver.extraJavaOptions"].split()
    assert {FLAG, "-Dmine=1"} <= set(conf["spark.executor.extraJavaOptions"].split())


@pytest.mark.parametrize(
    "name",
    [
        *("a.secret", "a.password", "a.token", "access.key", "accesskey"),  # Spark's own
        *("kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.ssl.key.pem", "x.credential"),
    ],
)
def test_secrets_of_spark_and_kafka_are_redacted(name: str) -> None:
    for conf in (_conf(), _conf(**{"spark.redaction.regex": "mine"})):
        assert re.search(conf["spark.redaction.regex"], name)
    assert re.search(_conf(**{"spark.redaction.regex": "mine"})["spark.redaction.regex"], "mine")


def test_a_spark_secret_is_passed_to_spark_only() -> None:
    name = "spark.hadoop.fs.s3a.secret.key"
    spark = SparkSettings(conf={name: "canary"})
    assert "canary" not in repr(spark)
    conf = SparkDriver(spark, lock=0, log=Path("spark.log"))._conf("java")
    assert conf[name] == "canary"
    with _properties_file(conf) as file:
        assert file.stat().st_mode & 0o777 == 0o600
        assert f"{name}=canary" in file.read_text().splitlines()
    assert not file.exists()


def test_spark_secrets_are_recognized_by_name_or_value() -> None:
    assert redaction.is_spark_secret("spark.driver.extraJavaOptions", "-Dx.trustStorePassword=a")
    assert not redaction.is_spark_secret("spark.driver.memory", "4g")


@pytest.mark.parametrize("side", ["driver", "executor"])
def test_a_configured_garbage_collector_replaces_the_default(side: str) -> None:
    key = f"spark.{side}.extraJavaOptions"
    assert "-XX:+UseParallelGC" in _conf()[key].split()
    mine = _conf(**{key: "-Da=b -XX:+UseG1GC"})[key].split()
    assert [option for option in mine if option.endswith("GC")] == ["-XX:+UseG1GC"]


def test_spark_authenticates_and_encrypts_on_a_cluster_by_default() -> None:
    crypto = "spark.network.crypto.enabled"
    assert _conf()["spark.authenticate"] == "true"
    assert crypto not in _conf()
    assert _conf(**{"spark.authenticate": "false"})["spark.authenticate"] == "false"
    cluster = SparkSettings(
        master="spark://one:7077", conf={"spark.authenticate.secret": "s3cret-s3cret"}
    )
    conf = SparkDriver(cluster, lock=0, log=Path("spark.log"))._conf("java")
    assert (conf["spark.authenticate"], conf[crypto]) == ("true", "true")
    assert "spark.driver.bindAddress" not in conf


class _Java:
    """A JVM whose wildcard address cannot be replaced."""

    def __getattr__(self, _name: str) -> "_Java":
        return self

    def __call__(self, *_given: object) -> "_Java":
        return self

    def isLoopbackAddress(self) -> bool:  # noqa: N802 - Java's name
        return False


def test_a_java_that_would_listen_on_the_wildcard_is_refused() -> None:
    with pytest.raises(MachineError, match="would listen on every address"):
        _listen_on_loopback_only(_Java())
