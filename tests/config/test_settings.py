import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from livejoin.config import settings
from livejoin.core.own_topics import OwnTopicRules
from livejoin.core.spec import DEFAULT
from livejoin.errors import SettingsError

Write = Callable[[str], Path]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username='me'"
pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        file = tmp_path / "livejoin.yaml"
        file.write_text(text)
        return file

    return write_file


def _error(file: Path | None = None, **overrides: Any) -> str:
    with pytest.raises(SettingsError) as raised:
        settings.load(file, **overrides)
    return str(raised.value)


# --- defaults and precedence


def test_every_setting_has_a_default() -> None:
    chosen = settings.load()
    assert chosen.name == "livejoin"
    assert chosen.kafka == {"bootstrap.servers": "127.0.0.1:9092"}
    assert chosen.initial_choice == DEFAULT.choice("users", "accounts", join="left")
    assert (chosen.http.host, chosen.http.port) == ("127.0.0.1", 10000)
    assert chosen.start_positions == {"users": "earliest", "accounts": "earliest"}
    assert (chosen.logs_kept, chosen.rejects_kept) == (10_000, 10_000)


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_changes_nothing(write: Write, text: str) -> None:
    assert settings.load(write(text)).model_dump() == settings.load().model_dump()


def test_a_file_overrides_only_what_it_names(write: Write) -> None:
    chosen = settings.load(write("topics:\n  users: people\njoin: inner\n"))
    assert chosen.initial_choice == DEFAULT.choice("people", "accounts", join="inner")


def test_precedence_is_file_then_environment_then_override(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("http: {host: localhost, port: 1}\nname: file\nlogs_kept: 1\n")
    assert settings.load(file).http.port == 1
    monkeypatch.setenv("LIVEJOIN_HTTP__PORT", "2")
    monkeypatch.setenv("LIVEJOIN_NAME", "environment")
    chosen = settings.load(file)
    assert (chosen.http.port, chosen.name) == (2, "environment")
    chosen = settings.load(file, http={"port": 3})
    assert (chosen.http.port, chosen.name) == (3, "environment")
    assert (chosen.http.host, chosen.logs_kept) == ("localhost", 1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0.0), ("'60'", 60.0), ("1.5", 1.5), ("forever", math.inf)]
)
def test_a_standby_is_kept_for_seconds_or_forever(write: Write, text: str, seconds: float) -> None:
    assert settings.load(write(f"standby_s: {text}")).limits.standby_s == seconds


@pytest.mark.parametrize("text", ["-1", "never", "[1]", ".nan"])
def test_another_time_of_a_standby_is_refused(write: Write, text: str) -> None:
    error = _error(write(f"standby_s: {text}"))
    assert error.startswith("standby_s: expected seconds, 0 or more, or forever, got ")


def test_a_variable_can_set_a_section_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEJOIN_SPARK__CONF", '{"spark.executor.memory": "1g"}')
    assert settings.load().spark.conf == {"spark.executor.memory": "1g"}


def test_variables_name_kafka_properties_with_underscores(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("kafka: {bootstrap.servers: 'file:1', client.id: me}")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "environment:2")
    assert settings.load(file).kafka == {"bootstrap.servers": "environment:2", "client.id": "me"}


def test_kafka_properties_become_text(write: Write) -> None:
    file = write("kafka: {bootstrap.servers: x, enable.idempotence: true, linger.ms: 5}")
    assert settings.load(file).kafka == {
        "bootstrap.servers": "x",
        "enable.idempotence": "true",
        "linger.ms": "5",
    }


def test_spark_properties_become_text(write: Write) -> None:
    file = write("spark: {conf: {spark.executor.cores: 2, spark.ui.enabled: true}}")
    assert settings.load(file).spark.conf == {
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
    }


def test_a_property_without_a_value_is_not_given(write: Write) -> None:
    chosen = settings.load(
        write("kafka: {bootstrap.servers: x, client.id: }\nspark: {conf: {a: }}")
    )
    assert (chosen.kafka, chosen.spark.conf) == ({"bootstrap.servers": "x"}, {})
    assert "kafka: bootstrap.servers is missing" in _error(write("kafka: {bootstrap.servers: }"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kafka: {bootstrap.servers: ['a:1', 'b:1']}",
            "kafka.bootstrap.servers: expected text, got",
        ),
        ("kafka_data: {ssl: {ca: {location: x}}}", "kafka_data.ssl: expected text, got a mapping"),
        ("spark: {conf: {spark.jars: [a, b]}}", "spark.conf.spark.jars: expected text, got a list"),
    ],
)
def test_a_property_is_a_text(write: Write, text: str, message: str) -> None:
    assert message in _error(write(text))


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("spark.master: yarn", "spark.master has its own setting: spark.master"),
        ("spark.sql.shuffle.partitions: 8", "its own setting: spark.shuffle_partitions"),
    ],
)
def test_spark_conf_rejects_what_has_its_own_setting(write: Write, conf: str, message: str) -> None:
    assert message in _error(write(f"spark: {{conf: {{{conf}}}}}"))


@pytest.mark.parametrize("master", ["spark://one:7077,two:7077", "local-cluster[2,1,1024]"])
def test_a_standalone_cluster_without_its_secret_is_rejected(write: Write, master: str) -> None:
    message = "no spark.authenticate.secret: set the one of its master and workers"
    assert message in _error(write(f"spark: {{master: '{master}'}}"))
    for conf in ("spark.authenticate.secret: s3cret-s3cret", 'spark.authenticate: "False"'):
        chosen = settings.load(write(f"spark: {{master: '{master}', conf: {{{conf}}}}}"))
        assert "s3cret" not in repr(chosen)


@pytest.mark.parametrize("master", ["local", "local[4]", "yarn", "k8s://https://host:6443"])
def test_no_secret_is_needed_where_spark_generates_one(write: Write, master: str) -> None:
    assert settings.load(write(f"spark: {{master: '{master}'}}")).spark.master == master


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings.load().name = "other"
    with pytest.raises(ValueError, match="frozen"):
        settings.load().topics.users = "other"


def test_checkpoints_default_to_the_state_folder_and_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert settings.load(name="mine").checkpoint_path == "/state/livejoin/mine/checkpoints"
    assert settings.load(checkpoints="s3a://bucket/x").checkpoint_path == "s3a://bucket/x"


# --- start positions


@pytest.mark.parametrize(
    ("start", "reset", "expected"),
    [
        ("earliest", None, "earliest"),
        ("latest", None, "latest"),
        ("earliest", "latest", "latest"),
        ("earliest", "largest", "latest"),
        ("latest", "earliest", "earliest"),
        ("latest", "smallest", "earliest"),
        ("latest", "beginning", "earliest"),
        ("earliest", "end", "latest"),
    ],
)
def test_auto_offset_reset_overrides_start(start: str, reset: str | None, expected: str) -> None:
    kafka = {"bootstrap.servers": "x"} | ({"auto.offset.reset": reset} if reset else {})
    positions = settings.load(start=start, kafka=kafka).start_positions
    assert positions == {"users": expected, "accounts": expected}


# --- invalid settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam: x", "unknown setting nam: did you mean name?"),
        ("topic: {users: x}", "unknown setting topic: did you mean topics?"),
        ("topics: {user: x}", "unknown setting topics.user: did you mean users?"),
        ("http: {prt: 1}", "unknown setting http.prt: did you mean port?"),
        ("spark: {batchs: 1}", "unknown setting spark.batchs: did you mean batch_s?"),
        ("zzz: 1", "unknown setting zzz: known are name, kafka, kafka_file, kafka_data, "),
        ("http: {zzz: 1}", "unknown setting http.zzz: known are host, port"),
        ("nam: x\nhttp: {prt: 1}", "did you mean port?; unknown setting nam: did you mean name?"),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(
    write: Write, text: str, message: str
) -> None:
    assert message in _error(write(text))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("LIVEJOIN_NAM", "LIVEJOIN_NAM is not a setting. Did you mean LIVEJOIN_NAME?"),
        ("LIVEJOIN_TOPIC__USERS", "Did you mean LIVEJOIN_TOPICS?"),
        ("LIVEJOIN_HTTP__PRT", "unknown setting http.prt: did you mean port?"),
        ("livejoin_nam", "Did you mean LIVEJOIN_NAME?"),
        ("LIVEJOIN_QQQ", "environment variable LIVEJOIN_QQQ is not a setting"),
        ("LIVEJOIN_NAME__X", "LIVEJOIN_NAME__X"),
    ],
)
def test_an_unknown_variable_is_an_error_with_a_suggestion(
    monkeypatch: pytest.MonkeyPatch, variable: str, message: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert message in _error()


def test_livejoin_variables_that_are_not_settings_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVEJOIN_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("LIVEJOIN_IVY_SETTINGS", "/ivy.xml")
    assert settings.load().name == "livejoin"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http: {port: abc}", "http.port: Input should be a valid integer"),
        ("http: {port: 65536}", "http.port: Input should be less than or equal to 65535"),
        ("http: {port: -1}", "http.port: Input should be greater than or equal to 0"),
        ("http: 5", "http: Input should be a valid dictionary"),
        ("join: outer", "join: Input should be 'left', 'inner' or 'left_outer', got 'outer'"),
        ("start: yesterday", "start: expected earliest, latest, a time"),
        ("logs_kept: 0", "logs_kept: Input should be greater than or equal to 1"),
        ("topics: {users: [a, b]}", "topics.users: Input should be a valid string"),
        ("topics: {users: 'a,b'}", "topics.users: 'a,b' is not a topic name"),
        ("topics: {users: 'a*'}", "topics.users: 'a*' is not a topic name"),
        ("topics: {users: ''}", "topics.users: '' is not a topic name"),
        ("topics: {users: ..}", "topics.users: '..' is not a topic name"),
        ("topics: {users: __consumer_offsets}", "is not a topic name"),
        (f"topics: {{users: {'x' * 250}}}", "is not a topic name"),
        ("kafka: null", "kafka: Input should be a valid dictionary"),
        ("kafka: {}", "kafka: bootstrap.servers is missing"),
        ("kafka: {client.id: me}", "kafka: bootstrap.servers is missing"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_setting(
    write: Write, text: str, message: str
) -> None:
    assert message in _error(write(text))


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({"users": "a", "accounts": "a"}, "topics.users and topics.accounts must differ"),
        ({"users": "control"}, "topics.users must not be the control topic 'control'"),
        ({"accounts": "c", "control": "c"}, "topics.accounts must not be the control topic 'c'"),
        ({"users": "livejoin.ledger"}, "topics.users is 'livejoin.ledger', one of livejoin's own"),
        ({"users": "livejoin.logs"}, "one of livejoin's own topics"),
        ({"accounts": "livejoin.changelog.7"}, "one of livejoin's own topics"),
        ({"control": "livejoin.ledger"}, "one of livejoin's own topics"),
    ],
)
def test_topics_must_differ_and_not_be_livejoins_own(topics: dict[str, str], message: str) -> None:
    assert message in _error(topics=topics)


def test_the_name_decides_which_topics_are_livejoins_own() -> None:
    assert settings.load(name="mine", topics={"users": "livejoin.ledger"})
    assert "own topics" in _error(name="mine", topics={"users": "mine.ledger"})


# --- files


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    message = _error(tmp_path / "nope.yaml")
    assert f"{tmp_path / 'nope.yaml'} cannot be read: No such file" in message
    assert "-c" in message


@pytest.mark.parametrize("content", [b"name: [1", b"\xff\xfe", b"a: b: c", b"name: x\n\tjoin: y"])
def test_a_file_that_is_not_yaml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_bytes(content)
    message = _error(file)
    assert f"{file} is not YAML" in message
    assert "\n" not in message


@pytest.mark.parametrize(("text", "kind"), [("- name", "list"), ("name", "str"), ("5", "int")])
def test_a_file_that_is_not_a_mapping_is_an_error(write: Write, text: str, kind: str) -> None:
    assert f"does not contain a mapping, but a {kind}" in _error(write(text))


# --- references


def test_references_are_resolved_from_variables_and_files(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    monkeypatch.setenv("BROKER", "there:9092")
    file = write(
        "kafka:\n"
        "  bootstrap.servers: ${env:BROKER}\n"
        "  security.protocol: SASL_SSL\n"
        f"  sasl.jaas.config: {PLAIN} password='${{file:{secret}}}';\n"
        "topics: {users: 'people-${env:BROKER_NAME}'}\n"
    )
    monkeypatch.setenv("BROKER_NAME", "a")
    chosen = settings.load(file)
    assert chosen.kafka["bootstrap.servers"] == "there:9092"
    hidden = chosen.kafka["sasl.jaas.config"]
    assert isinstance(hidden, SecretStr)
    assert hidden.get_secret_value() == f"{PLAIN} password='hush';"
    assert chosen.topics.users == "people-a"


def test_a_variable_can_hold_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "there:9092")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "${env:BROKER}")
    assert settings.load().kafka["bootstrap.servers"] == "there:9092"


def test_a_reference_to_an_unset_variable_is_an_error(write: Write) -> None:
    message = _error(write("kafka: {bootstrap.servers: '${env:NO_SUCH_VARIABLE}'}"))
    assert message == "environment variable NO_SUCH_VARIABLE is not set"


def test_a_reference_to_a_missing_file_is_an_error(write: Write) -> None:
    message = _error(write("kafka: {bootstrap.servers: x, sasl.password: '${file:/no/such}'}"))
    assert message == "/no/such cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {sasl.password: '${env:SECRET}'}\nhttp: {port: abc}",
        "kafka: ${env:SECRET}",
        "spark: {conf: '${env:SECRET}'}",
        "spark: {batch_s: '${env:SECRET}'}",
    ],
)
def test_no_error_shows_a_secret(write: Write, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SECRET", "hush")
    assert "hush" not in _error(write(text))


# --- secrets and properties files

LOGIN = """
kafka:
  bootstrap.servers: x
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: me
  sasl.password: %s
spark: {conf: {spark.hadoop.fs.s3a.secret.key: "%s", spark.driver.memory: 4g}}
"""


def test_printed_settings_never_show_a_secret(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "canary")
    chosen = settings.load(write(LOGIN % ("${env:SECRET}", "${env:SECRET}")))
    for text in (repr(chosen), str(chosen), chosen.model_dump_json(), repr(chosen.model_dump())):
        assert "canary" not in text
    assert chosen.warnings == ()


def test_a_plain_text_secret_in_the_file_gets_a_warning(write: Write) -> None:
    file = write(LOGIN % ("canary", "canary"))
    assert settings.load(file).warnings == tuple(
        f"{name} is in plain text in {file}: use ${{env:NAME}} or ${{file:PATH}} instead"
        for name in ("kafka.sasl.password", "spark.conf.spark.hadoop.fs.s3a.secret.key")
    )


def test_a_secret_from_the_environment_gets_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    login = {"SECURITY_PROTOCOL": "sasl_ssl", "SASL_MECHANISMS": "plain", "SASL_USERNAME": "me"}
    for name, value in {**login, "SASL_PASSWORD": "canary"}.items():
        monkeypatch.setenv(f"LIVEJOIN_KAFKA__{name}", value)
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "x")
    chosen = settings.load()
    assert chosen.warnings == ()
    assert "canary" not in repr(chosen)


def test_kafka_overrides_kafka_file(write: Write, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=file:1\nclient.id=file\n")
    chosen = settings.load(write(f"kafka_file: {properties}\nkafka: {{client.id: block}}"))
    assert chosen.kafka == {"bootstrap.servers": "file:1", "client.id": "block"}
    assert settings.load(kafka_file=str(properties)).kafka["client.id"] == "file"
    assert "cannot be read" in _error(kafka_file=str(tmp_path / "none"))


def test_older_property_names_are_accepted(write: Write) -> None:
    assert settings.load(write("kafka: {metadata.broker.list: x}")).warnings == ()
    assert "is not a Kafka client property" in _error(
        write("kafka: {bootstrap.servers: x, sasl.pasword: y}")
    )


def test_invalid_yaml_is_not_quoted(write: Write) -> None:
    message = _error(write("kafka:\n  sasl.password: canary: canary\n"))
    assert "is not YAML, line 2: mapping values are not allowed here" in message
    assert "canary" not in message


# --- special cases


@pytest.mark.parametrize("variable", ["LIVEJOIN_TOPICS", "LIVEJOIN_KAFKA", "LIVEJOIN_HTTP"])
def test_a_variable_that_is_not_json_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "not JSON")
    assert variable in _error()


@pytest.mark.parametrize("key", ["1", "on", "null"])
def test_a_key_that_is_not_text_is_an_error(write: Write, key: str) -> None:
    assert "unknown setting" in _error(write(f"{key}: x"))


def test_an_override_replaces_a_kafka_property_under_another_name(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("kafka: {bootstrap.servers: 'file:1'}")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "environment:2")
    chosen = settings.load(file, kafka={"bootstrap.servers": "override:3"})
    assert chosen.kafka == {"bootstrap.servers": "override:3"}


def test_an_underscore_in_a_property_name_is_kept(write: Write) -> None:
    file = write("kafka: {bootstrap.servers: x, log_level: 3}")
    assert settings.load(file).kafka["log_level"] == "3"


def test_own_topics_become_rules(write: Write) -> None:
    text = "own_topics: {replication: 3, create: false, config: {logs: {retention.ms: 5, a: true}}}"
    rules = settings.load(write(text)).own_topics.rules
    assert (rules.replication, rules.create) == (3, False)
    for empty in ('""', ""):  # left to the brokers
        left = f"own_topics: {{config: {{leader: {{segment.ms: {empty}}}}}}}"
        config = settings.load(write(left)).own_topics.rules.config_of("leader")
        assert config == {"retention.ms": "3600000"}
    assert rules.config_of("logs") == {
        "retention.bytes": "67108864",
        "retention.ms": "5",
        "a": "true",
    }
    assert settings.load().own_topics.rules == OwnTopicRules()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{config: {ledger: {cleanup.policy: delete}}}",
            "ledger: livejoin depends on its own clean",
        ),
        ("{config: {feed: {max.message.bytes: 1}}}", "own setting: own_topics.max_message_bytes"),
        (
            "{config: {changelogs: {a: 1}}}",
            r"unknown setting own_topics\.config\.changelogs: did you mean changelog\?",
        ),
        (
            "{config: {zzz: {a: 1}}}",
            r"own_topics\.config\.zzz: known are access, tokens, .*, feed$",
        ),
        ("{max_message_bytes: 1000}", r"own_topics\.max_message_bytes: .* 65536, got 1000"),
        ("{replication: -1}", r"own_topics\.replication: .* 0, got -1"),
        ("{replicas: 3}", r"unknown setting own_topics\.replicas: did you mean replication"),
    ],
)
def test_wrong_own_topics_are_named(write: Write, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings.load(write(f"own_topics: {text}"))
