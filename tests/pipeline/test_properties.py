"""The table of Kafka's properties against the Java client that Spark runs."""

from livejoin.kafka.properties import table
from livejoin.pipeline.spark_driver import SparkDriver


def test_java_knows_all_that_it_is_given_and_nothing_of_its_own_is_missing(
    session: SparkDriver,
) -> None:
    jvm = session.spark()._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    known: set[str] = set()
    for name in ("consumer.ConsumerConfig", "producer.ProducerConfig", "admin.AdminClientConfig"):
        one = loader.loadClass(f"org.apache.kafka.clients.{name}")
        known |= set(one.getMethod("configNames", None).invoke(None, None))
    given = table.BOTH | table.RENAMED.keys() | table.JAVA_ONLY
    assert given <= known
    of_brokers = {name for name in known if "jwks" in name} | {"bootstrap.controllers"}
    refused = tuple(table.REFUSED)
    missing = known - table.KNOWN - of_brokers
    assert {name for name in missing if not name.startswith(("internal.", *refused))} == set()
