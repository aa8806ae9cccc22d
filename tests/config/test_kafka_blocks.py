"""Several blocks of Kafka properties: files, variables, errors that name the block, secrets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from livejoin.config import settings
from livejoin.errors import SettingsError
from livejoin.kafka.clusters import Clusters

SECTIONS = ("kafka_data", "kafka_control")
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def one(text: str) -> Path:
        file = tmp_path / "livejoin.yaml"
        file.write_text(text)
        return file

    return one


def _error(file: Path) -> str:
    with pytest.raises(SettingsError) as raised:
        settings.load(file)
    return str(raised.value)


def test_without_other_blocks_one_cluster_has_every_role(write: Write) -> None:
    clusters = Clusters.connect(
        settings.load(write("kafka: {bootstrap.servers: 'a:1'}")).kafka_blocks
    )
    assert clusters.data is clusters.control is clusters.own
    assert clusters.each == (clusters.own,)
    assert not clusters.has_separate_data
    assert not clusters.has_separate_control


def test_each_role_has_the_cluster_of_its_block(write: Write) -> None:
    file = write(
        "kafka: {bootstrap.servers: 'own:1'}\nkafka_data: {bootstrap.servers: 'data:2'}\n"
        "kafka_control: {bootstrap.servers: 'control:3'}\n"
    )
    clusters = Clusters.connect(settings.load(file).kafka_blocks)
    assert [one.address for one in clusters.each] == ["own:1", "data:2", "control:3"]
    assert (clusters.has_separate_data, clusters.has_separate_control) == (True, True)


@pytest.mark.parametrize("section", SECTIONS)
def test_an_equal_block_is_the_same_cluster(write: Write, section: str) -> None:
    file = write(f"kafka: {{bootstrap.servers: 'a:1'}}\n{section}: {{bootstrap.servers: 'a:1'}}")
    chosen = settings.load(file)
    assert len(Clusters.connect(chosen.kafka_blocks).each) == 1
    assert chosen.warnings == ()


def test_sources_and_control_topic_can_share_another_cluster(write: Write) -> None:
    other = "{bootstrap.servers: 'b:2'}"
    file = write(
        f"kafka: {{bootstrap.servers: 'a:1'}}\nkafka_data: {other}\nkafka_control: {other}"
    )
    clusters = Clusters.connect(settings.load(file).kafka_blocks)
    assert clusters.data is clusters.control
    assert clusters.data.role == "cluster of the sources and cluster of the control topic"
    assert clusters.own.role == "cluster of livejoin's own topics"


@pytest.mark.parametrize("section", SECTIONS)
def test_two_logins_for_the_same_servers_are_a_warning(write: Write, section: str) -> None:
    file = write(
        f"kafka: {{bootstrap.servers: 'a:1,b:2'}}\n"
        f"{section}: {{metadata.broker.list: 'b:2', security.protocol: SSL}}"
    )
    (warning,) = settings.load(file).warnings
    assert warning.startswith(f"kafka and {section} name the same servers (b:2)")


def test_one_server_in_two_spellings_is_the_same(write: Write) -> None:
    file = write(
        "kafka: {bootstrap.servers: 'a'}\n"
        "kafka_data: {bootstrap.servers: 'PLAINTEXT://a:9092', client.id: b}"
    )
    (warning,) = settings.load(file).warnings
    assert warning.startswith("kafka and kafka_data name the same servers (a:9092)")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_block_has_a_file_of_its_own(write: Write, tmp_path: Path, section: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=file\n")
    chosen = settings.load(write(f"{section}_file: {file}\n{section}: {{client.id: block}}"))
    assert getattr(chosen, section) == {"bootstrap.servers": "file:1", "client.id": "block"}
    assert chosen.kafka == {"bootstrap.servers": "127.0.0.1:9092"}
    missing = tmp_path / "none"
    assert f"{section}_file: {missing} cannot be read" in _error(
        write(f"{section}_file: {missing}")
    )


@pytest.mark.parametrize("section", SECTIONS)
def test_variables_set_properties_of_a_block(
    write: Write, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    monkeypatch.setenv(f"LIVEJOIN_{section.upper()}__BOOTSTRAP_SERVERS", "environment:2")
    chosen = settings.load(write(f"{section}: {{bootstrap.servers: 'file:1', client.id: me}}"))
    assert getattr(chosen, section) == {"bootstrap.servers": "environment:2", "client.id": "me"}


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{client.id: x}", ": bootstrap.servers is missing"),
        ("{client.id: x, bootstrap.servers: }", ": bootstrap.servers is missing"),
        ("{bootstrap.servers: ' , '}", ": bootstrap.servers is missing"),
        ("{bootstrap.servers: 'a;9092'}", ": bootstrap.servers has 'a;9092'"),
        ("{bootstrap.server: x}", ".bootstrap.server is not a Kafka client property: did you mean"),
        (
            "{bootstrap.servers: x, sasl.username: me, sasl.mechanism: PLAIN}",
            ": sasl.mechanism is set, but security.protocol is not",
        ),
        ("{bootstrap.servers: x, security.protocol: SSH}", ": security.protocol is SSH"),
        (
            "{bootstrap.servers: x, security.protocol: SSL, ssl.ca.location: /none.pem}",
            ": ssl.ca.location: /none.pem cannot be read",
        ),
    ],
)
def test_an_error_names_its_block(write: Write, section: str, block: str, message: str) -> None:
    assert f"{section}{message}" in _error(write(f"{section}: {block}"))


@pytest.mark.parametrize("section", SECTIONS)
def test_a_warning_names_its_block(write: Write, section: str) -> None:
    file = write(
        f"kafka: {{bootstrap.servers: 'a:1'}}\n{section}: {{bootstrap.servers: 'x:1', acks: 1}}"
    )
    assert settings.load(file).warnings == (f"{section}.acks is ignored: livejoin sets it itself",)


@pytest.mark.parametrize("section", SECTIONS)
def test_own_topics_at_the_default_address_are_a_warning(
    write: Write, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    file = write(f"{section}: {{bootstrap.servers: 'x:1'}}")
    expected = "kafka is not set: livejoin's own topics are at 127.0.0.1:9092"
    assert settings.load(file).warnings == (expected,)
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "a:1")
    assert settings.load(file).warnings == ()


@pytest.mark.parametrize("section", SECTIONS)
def test_secrets_of_a_block_are_hidden_and_reported(write: Write, section: str) -> None:
    login = "security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: me"
    file = write(f"{section}: {{bootstrap.servers: 'x:1', {login}, sasl.password: canary}}")
    chosen = settings.load(file)
    assert "canary" not in repr(chosen)
    assert any(
        warning.startswith(f"{section}.sasl.password is in plain text")
        for warning in chosen.warnings
    )


def test_where_reading_starts_is_a_property_of_the_sources(write: Write) -> None:
    file = write(
        "kafka: {bootstrap.servers: 'a:1'}\n"
        "kafka_data: {bootstrap.servers: 'b:1', auto.offset.reset: latest}"
    )
    assert set(settings.load(file).start_positions.values()) == {"latest"}
    file = write(
        "kafka: {bootstrap.servers: 'a:1', auto.offset.reset: latest}\n"
        "kafka_data: {bootstrap.servers: 'b:1'}"
    )
    assert set(settings.load(file).start_positions.values()) == {"earliest"}


def test_java_may_contact_the_token_endpoints_of_all_blocks(write: Write) -> None:
    def block(host: str) -> str:
        return (
            f"{{bootstrap.servers: '{host}:1', security.protocol: SASL_SSL,"
            " sasl.mechanism: OAUTHBEARER, sasl.oauthbearer.client.id: me,"
            " sasl.oauthbearer.client.secret: canary,"
            f" sasl.oauthbearer.token.endpoint.url: 'https://{host}/token'}}"
        )

    text = f"kafka: {block('a')}\nkafka_data: {block('b')}\nkafka_control: {block('a')}"
    (option,) = Clusters.connect(settings.load(write(text)).kafka_blocks).java_options
    assert option.endswith("allowed.urls=https://a/token,https://b/token")
