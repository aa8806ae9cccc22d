"""`livejoin config`: effective settings, their origin, and no secrets."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.errors import SettingsError
from livejoin.redaction import HIDDEN
from rig.authority import Authority

pytestmark = pytest.mark.usefixtures("no_settings")
FILE = """
name: crm
kafka:
  bootstrap.servers: kafka:9092
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: ${env:OUR_USER}
  sasl.password: hunter2
  ssl.key.password: ${file:%s}
  sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required
    username="hunter2" password="hunter2";'
topics: {users: crm.users}
spark:
  conf:
    spark.hadoop.fs.s3a.secret.key: hunter2
    spark.driver.extraJavaOptions: -Djavax.net.ssl.trustStorePassword=hunter2
    spark.driver.memory: 4g
checkpoints: s3a://who:hunter2@bucket/x
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    monkeypatch.setenv("OUR_USER", "hunter2")
    monkeypatch.setenv("LIVEJOIN_HTTP__PORT", "8080")
    monkeypatch.setenv("LIVEJOIN_KAFKA__SSL_CA_PEM", Authority("hunter2").pem)
    monkeypatch.setenv("LIVEJOIN_TOPICS__USERS", "env.users")
    settings_file = tmp_path / "livejoin.yaml"
    settings_file.write_text(FILE % secret)
    return settings_file


def _config(*arguments: str) -> str:
    done = CliRunner().invoke(main.cli, ["config", *arguments])
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_every_setting_has_its_origin(file: Path) -> None:
    rows = json.loads(_config("-c", str(file), "--output", "json"))
    found = {row["setting"]: (row["value"], row["from"]) for row in rows}
    assert found["name"] == ("crm", "file")
    assert found["topics.users"] == ("env.users", "environment")
    assert found["topics.accounts"] == ("accounts", "default")
    assert found["http.port"] == (8080, "environment")
    assert found["http.host"] == ("127.0.0.1", "default")
    assert found["kafka.bootstrap.servers"] == ("kafka:9092", "file")
    assert found["spark.conf.spark.driver.memory"] == ("4g", "file")
    assert found["standby_s"] == (900, "default")


def test_secrets_are_hidden_and_references_stay_unresolved(file: Path) -> None:
    for output in ("table", "json"):
        assert "hunter2" not in _config("-c", str(file), "--output", output)
    rows = json.loads(_config("-c", str(file), "--output", "json"))
    found = {row["setting"]: row["value"] for row in rows}
    assert found["kafka.sasl.username"] == "${env:OUR_USER}"
    assert found["kafka.ssl.key.password"].startswith("${file:")
    for name in ("kafka.sasl.password", "kafka.sasl.jaas.config", "kafka.ssl.ca.pem"):
        assert found[name] == HIDDEN
    assert found["spark.conf.spark.hadoop.fs.s3a.secret.key"] == HIDDEN
    assert found["spark.conf.spark.driver.extraJavaOptions"] == HIDDEN
    assert found["checkpoints"] == f"s3a://{HIDDEN}@bucket/x"


def test_without_a_file_all_settings_are_defaults() -> None:
    lines = [line.split() for line in _config().splitlines()]
    assert lines[0] == ["setting", "value", "from"]
    assert ["topics.users", "users", "default"] in lines
    assert ["spark.conf", "{}", "default"] in lines
    assert {line[-1] for line in lines[1:]} == {"default"}


def test_a_section_can_come_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "LIVEJOIN_KAFKA", '{"bootstrap.servers": "k:1", "ssl.key.password": "hunter2"}'
    )
    monkeypatch.setenv("LIVEJOIN_KAFKA__SECURITY_PROTOCOL", "SSL")
    output = _config()
    assert "hunter2" not in output
    assert ["kafka.bootstrap.servers", "k:1", "environment"] in [
        line.split() for line in output.splitlines()
    ]


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("nam: x")
    done = CliRunner().invoke(main.cli, ["config", "-c", str(file)])
    assert isinstance(done.exception, SettingsError)
    assert "did you mean name?" in str(done.exception)


def test_values_from_kafka_file_have_their_origin_and_are_hidden(tmp_path: Path) -> None:
    properties, file = tmp_path / "client.properties", tmp_path / "livejoin.yaml"
    properties.write_text(
        "bootstrap.servers=k:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=me\nsasl.password=hunter2\nclient.id=properties\n"
    )
    file.write_text(f"kafka_file: {properties}\nkafka: {{client.id: above}}")
    rows = json.loads(_config("-c", str(file), "--output", "json"))
    found = {row["setting"]: (row["value"], row["from"]) for row in rows}
    assert found["kafka.bootstrap.servers"] == ("k:1", "kafka_file")
    assert found["kafka.sasl.password"] == (HIDDEN, "kafka_file")
    assert found["kafka.client.id"] == ("above", "file")


def test_warnings_go_to_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(
        "kafka: {bootstrap.servers: 'a:1'}\nkafka_data: {bootstrap.servers: 'a:1', client.id: b}"
    )
    done = CliRunner().invoke(main.cli, ["config", "-c", str(file), "--output", "json"])
    assert json.loads(done.stdout)
    assert done.stderr.startswith(
        "livejoin: warning: kafka and kafka_data name the same servers (a:1) with different"
    )


def test_the_tables_that_follow_from_declared_sources_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(
        "sources:\n"
        "  a: {key: k, fields: {k: int64, x: 'decimal(12,2)'}}\n"
        "  b: {key: id, fields: {id: int64, x: string}}\n"
    )
    lines = _config("-c", str(file)).splitlines()
    tables = [line.split(maxsplit=1) for line in lines[lines.index("") + 1 :]]
    assert tables == [
        ["table", "columns"],
        ["final_ui", "k int64, x decimal(12,2), b_x string"],
        ["a_ui", "k int64, x decimal(12,2)"],
        ["b_ui", "id int64, x string"],
    ]
