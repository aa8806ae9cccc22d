"""D5: invalid certificates, logins and missing TLS, with both client libraries."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import OTHERS, ROLES, Clusters, Section
from livejoin.pipeline.spark_driver import SparkDriver
from rig.authority import Authority
from rig.secure import SecureBroker, secure


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that requires logins."""
    with secure(tmp_path_factory.mktemp("secure"), Authority()) as broker:
        yield broker


# one try of Spark's, of two seconds
SHORT = {
    "kafka.default.api.timeout.ms": "2000",
    "kafka.request.timeout.ms": "2000",
    "fetchOffset.numRetries": "1",
}


def wrong(guarded: SecureBroker, folder: Path) -> dict[str, tuple[dict[str, str], str, str]]:
    """Blocks that must be refused, with a part of librdkafka's and Java's error."""
    other_ca = Authority("another authority").file(folder / "other.pem")
    mutual, plain = guarded.settings_for("SSL"), guarded.settings_for("PLAIN")
    open_door = {"bootstrap.servers": guarded.open.address}
    return {
        "wrong authority": (
            mutual | {"ssl.ca.location": str(other_ca)}, "certificate", "SslAuthentication"),
        "wrong host": (guarded.bad_certificate("ELSEWHERE"), "certificate", "SslAuthentication"),
        "expired": (guarded.bad_certificate("EXPIRED"), "certificate", "SslAuthentication"),
        "no TLS there": (mutual | open_door, "SSL", "TimeoutException"),
        "no TLS there, with a password": (plain | open_door, "SSL", "TimeoutException"),
        "wrong password": (
            plain | {"sasl.password": "canary-wrong"}, "authentication", "SaslAuthentication"),
        "no certificate of our own": (
            {k: v for k, v in mutual.items() if k not in ("ssl.certificate.pem", "ssl.key.pem")},
            "certificate", "SslAuthentication"),
    }  # fmt: skip


def test_wrong_certificates_are_refused_by_name_and_never_fallen_back_from(
    guarded: SecureBroker, session: SparkDriver, tmp_path: Path
) -> None:
    guarded.open.create_topic("d5")
    spark = session.spark()
    for case, (block, rdkafka, java) in wrong(guarded, tmp_path).items():
        kafka = Kafka(block)
        with pytest.raises(KafkaUnavailable) as refused:
            kafka.wait_until_reachable(1)
        assert "TLS handshake or login with Kafka at" in str(refused.value), case
        assert rdkafka.lower() in str(refused.value).lower(), case
        # without a connection Java reports only that; otherwise it may be slow
        short = SHORT if java == "TimeoutException" else {"fetchOffset.numRetries": "1"}
        options = kafka.spark_options() | {"subscribe": "d5"} | short
        with pytest.raises((PySparkException, Py4JError)) as died:
            spark.read.format("kafka").options(**options).load().count()
        assert java in str(died.value), case
    good = Kafka(guarded.settings_for("SSL"))
    good.wait_until_reachable(20)
    assert (
        spark.read.format("kafka").options(**good.spark_options(), subscribe="d5").load().count()
        == 0
    )


def test_each_block_is_refused_by_its_name_and_the_others_are_not(
    guarded: SecureBroker, tmp_path: Path
) -> None:
    good = guarded.settings_for("SCRAM-SHA-256")

    def refusal(section: Section, block: dict[str, str]) -> str:
        """The error of the one cluster that this block makes unusable."""
        blocks: dict[Section, dict[str, str]] = {"kafka": good, section: block}
        clusters = Clusters.connect(blocks)
        (wrong_one,) = [one for one in clusters.each if one.section == section]
        for other in clusters.each:
            if other is not wrong_one:
                other.wait_until_reachable(20)
        with pytest.raises(KafkaUnavailable) as refused:
            wrong_one.wait_until_reachable(1)
        return str(refused.value)

    cases = [
        (section, block, reason)
        for block, reason, _ in wrong(guarded, tmp_path).values()
        for section in OTHERS
    ]
    with ThreadPoolExecutor(len(cases)) as threads:
        found = list(threads.map(lambda case: refusal(*case[:2]), cases))
    for (section, block, reason), text in zip(cases, found, strict=True):
        address = block["bootstrap.servers"]
        assert f"TLS handshake or login with Kafka at {address} ({ROLES[section]}) failed" in text
        assert reason.lower() in text.lower(), text
        assert f"in the {section} settings" in text
