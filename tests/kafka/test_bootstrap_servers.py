"""`bootstrap.servers` as people write it, and as each client library takes it."""

import pytest

from livejoin.errors import SettingsError
from livejoin.kafka import bootstrap_servers, properties
from livejoin.kafka.cluster import Kafka

TLS = {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , ,", [("a", 1)]),
        ("a", [("a", 9092)]),
        ("kafka_1.example-2.com:1", [("kafka_1.example-2.com", 1)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("plaintext://a", [("a", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        (" , ", []),
        ("", []),
    ],
)
def test_servers_are_read_as_librdkafka_does(text: str, expected: list[tuple[str, int]]) -> None:
    assert bootstrap_servers.parse(text, "PLAINTEXT") == expected


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("a", "a:9092"),
        ("SSL://a:1, [::1] ,", "a:1,[::1]:9092"),
    ],
)
def test_java_gets_the_port_that_librdkafka_assumes(given: str, passed_on: str) -> None:
    found = properties.client_properties(TLS | {"bootstrap.servers": given})
    assert found.java["bootstrap.servers"] == passed_on
    assert found.librdkafka["bootstrap.servers"] == passed_on
    assert Kafka(TLS | {"bootstrap.servers": given}).address == passed_on


@pytest.mark.parametrize(
    "server",
    [
        *("a;9092", "a:1 b:2", "a:", ":9092", "a:x", "a:-1", "a:0", "a:65536", "::1:9092"),
        *("['a:1'", "http://a:1", "ä:1", "a:٣", "a/b:1", "a b"),
    ],
)
def test_what_a_library_would_ignore_or_fail_on_is_an_error(server: str) -> None:
    with pytest.raises(SettingsError) as error:
        properties.client_properties({"bootstrap.servers": f"b:2,{server}"}, "kafka_data")
    assert error.value.message == f"kafka_data: bootstrap.servers has {server!r}"
    assert error.value.hint == "Write HOST:PORT,HOST:PORT."


def test_a_login_in_an_address_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as error:
        properties.client_properties({"bootstrap.servers": "https://me:canary@a:1"})
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("block", "protocol"), [({}, "not set"), (TLS, "SSL"), ({"security.protocol": "ssl"}, "SSL")]
)
def test_a_server_of_another_protocol_than_its_block_is_an_error(
    block: dict[str, str], protocol: str
) -> None:
    with pytest.raises(SettingsError) as error:
        properties.client_properties(block | {"bootstrap.servers": "SASL_SSL://a:1"})
    assert error.value.message == (
        f"kafka: bootstrap.servers has SASL_SSL://, but security.protocol is {protocol}"
    )
    assert "Set security.protocol" in error.value.hint
