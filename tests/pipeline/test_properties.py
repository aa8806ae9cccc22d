"""The table of Kafka properties against the Java client inside Spark."""

from livejoin.kafka import property_table as table
from livejoin.pipeline.spark_driver import SparkDriver


def test_the_table_matches_the_java_client(
    session: SparkDriver,
) -> None:
    jvm = session.spark()._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    known: set[str] = set()
    for name in ("consumer.ConsumerConfig", "producer.ProducerConfig", "admin.AdminClientConfig"):
        config_class = loader.loadClass(f"org.apache.kafka.clients.{name}")
        known |= set(config_class.getMethod("configNames", None).invoke(None, None))
    given = table.BOTH | table.RENAMED.keys() | table.JAVA_ONLY
    assert given <= known
    of_brokers = {name for name in known if "jwks" in name} | {"bootstrap.controllers"}
    refused = tuple(table.REFUSED)
    missing = known - table.KNOWN - of_brokers
    assert {name for name in missing if not name.startswith(("internal.", *refused))} == set()
