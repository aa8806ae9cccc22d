from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from livejoin.config import settings
from livejoin.core.spec import Choice
from livejoin.errors import SettingsError

Write = Callable[[str], Path]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username='me'"
pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(text: str) -> Path:
        file = tmp_path / "livejoin.yaml"
        file.write_text(text)
        return file

    return writing


def _refused(file: Path | None = None, **overrides: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        settings.load(file, **overrides)
    return str(refused.value)


# --- defaults and where settings come from


def test_every_setting_has_a_default() -> None:
    chosen = settings.load()
    assert chosen.name == "livejoin"
    assert chosen.kafka == {"bootstrap.servers": "127.0.0.1:9092"}
    assert chosen.initial_choice == Choice("users", "accounts", "left")
    assert (chosen.http.host, chosen.http.port) == ("127.0.0.1", 10000)
    assert chosen.start_positions == {"users": "earliest", "accounts": "earliest"}
    assert (chosen.logs_kept, chosen.rejects_kept) == (10_000, 10_000)


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_changes_nothing(write: Write, text: str) -> None:
    assert settings.load(write(text)).model_dump() == settings.load().model_dump()


def test_a_file_sets_what_it_names_and_nothing_else(write: Write) -> None:
    chosen = settings.load(write("topics:\n  users: people\njoin: inner\n"))
    assert chosen.initial_choice == Choice("people", "accounts", "inner")


def test_the_environment_goes_over_the_file_and_an_override_over_both(
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


def test_the_environment_sets_a_section_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEJOIN_SPARK__CONF", '{"spark.executor.memory": "1g"}')
    assert settings.load().spark.conf == {"spark.executor.memory": "1g"}


def test_the_environment_spells_kafka_properties_with_underscores(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("kafka: {bootstrap.servers: 'file:1', client.id: me}")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "environment:2")
    assert settings.load(file).kafka == {"bootstrap.servers": "environment:2", "client.id": "me"}


def test_kafka_properties_are_text_as_kafka_spells_it(write: Write) -> None:
    file = write("kafka: {bootstrap.servers: x, enable.idempotence: true, linger.ms: 5}")
    assert settings.load(file).kafka == {
        "bootstrap.servers": "x",
        "enable.idempotence": "true",
        "linger.ms": "5",
    }


def test_spark_properties_are_text_as_well(write: Write) -> None:
    file = write("spark: {conf: {spark.executor.cores: 2, spark.ui.enabled: true}}")
    assert settings.load(file).spark.conf == {
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("spark.master: yarn", "spark.master has a setting of its own: spark.master"),
        ("spark.sql.shuffle.partitions: 8", "of its own: spark.shuffle_partitions"),
    ],
)
def test_what_has_a_setting_is_not_said_in_sparks_configuration(
    write: Write, said: str, instead: str
) -> None:
    with pytest.raises(SettingsError, match=instead):
        settings.load(write(f"spark: {{conf: {{{said}}}}}"))


@pytest.mark.parametrize("master", ["spark://one:7077,two:7077", "local-cluster[2,1,1024]"])
def test_a_cluster_without_the_secret_of_its_processes_is_refused(
    write: Write, master: str
) -> None:
    said = "no spark.authenticate.secret: give the one of its master and workers"
    with pytest.raises(SettingsError, match=said):
        settings.load(write(f"spark: {{master: '{master}'}}"))
    for conf in ("spark.authenticate.secret: s3cret-s3cret", 'spark.authenticate: "False"'):
        chosen = settings.load(write(f"spark: {{master: '{master}', conf: {{{conf}}}}}"))
        assert "s3cret" not in repr(chosen)


@pytest.mark.parametrize("master", ["local", "local[4]", "yarn", "k8s://https://host:6443"])
def test_where_spark_makes_a_secret_itself_none_is_asked_for(write: Write, master: str) -> None:
    assert settings.load(write(f"spark: {{master: '{master}'}}")).spark.master == master


def test_settings_do_not_change_once_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings.load().name = "other"
    with pytest.raises(ValueError, match="frozen"):
        settings.load().topics.users = "other"


def test_checkpoints_are_kept_under_the_users_state_and_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert settings.load(name="mine").checkpoint_path == "/state/livejoin/mine/checkpoints"
    assert settings.load(checkpoints="s3a://bucket/x").checkpoint_path == "s3a://bucket/x"


# --- where reading starts


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
        pytest.param(
            "earliest",
            "end",
            "latest",
        ),
    ],
)
def test_auto_offset_reset_decides_where_reading_starts(
    start: str, reset: str | None, expected: str
) -> None:
    kafka = {"bootstrap.servers": "x"} | ({"auto.offset.reset": reset} if reset else {})
    found = settings.load(start=start, kafka=kafka).start_positions
    assert found == {"users": expected, "accounts": expected}


# --- what is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nam: x", "nam is no setting: did you mean name?"),
        ("topic: {users: x}", "topic is no setting: did you mean topics?"),
        ("topics: {user: x}", "topics.user is no setting: did you mean users?"),
        ("http: {prt: 1}", "http.prt is no setting: did you mean port?"),
        ("spark: {batchs: 1}", "spark.batchs is no setting: did you mean batch_s?"),
        ("zzz: 1", "zzz is no setting: known are name, kafka, kafka_file, topics, "),
        ("http: {zzz: 1}", "http.zzz is no setting: known are host, port"),
        ("nam: x\nhttp: {prt: 1}", "did you mean port?; nam is no setting: did you mean name?"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(
    write: Write, text: str, said: str
) -> None:
    assert said in _refused(write(text))


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("LIVEJOIN_NAM", "LIVEJOIN_NAM is no setting. Did you mean LIVEJOIN_NAME?"),
        ("LIVEJOIN_TOPIC__USERS", "Did you mean LIVEJOIN_TOPICS?"),
        ("LIVEJOIN_HTTP__PRT", "http.prt is no setting: did you mean port?"),
        ("livejoin_nam", "Did you mean LIVEJOIN_NAME?"),
        ("LIVEJOIN_QQQ", "environment variable LIVEJOIN_QQQ is no setting"),
        pytest.param(
            "LIVEJOIN_NAME__X",
            "LIVEJOIN_NAME__X",
        ),
    ],
)
def test_an_unknown_variable_is_an_error_that_names_the_nearest(
    monkeypatch: pytest.MonkeyPatch, variable: str, said: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert said in _refused()


def test_variables_of_ours_that_are_not_settings_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVEJOIN_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("LIVEJOIN_IVY_SETTINGS", "/ivy.xml")
    assert settings.load().name == "livejoin"


@pytest.mark.parametrize(
    ("text", "said"),
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
        ("kafka: {}", "kafka needs bootstrap.servers"),
        ("kafka: {client.id: me}", "kafka needs bootstrap.servers"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_setting(
    write: Write, text: str, said: str
) -> None:
    assert said in _refused(write(text))


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ({"users": "a", "accounts": "a"}, "topics.users and topics.accounts must differ"),
        ({"users": "control"}, "topics.users must not be the control topic 'control'"),
        ({"accounts": "c", "control": "c"}, "topics.accounts must not be the control topic 'c'"),
        ({"users": "livejoin.ledger"}, "topics.users is 'livejoin.ledger', one of livejoin's own"),
        ({"users": "livejoin.logs"}, "one of livejoin's own topics"),
        ({"accounts": "livejoin.changelog.7"}, "one of livejoin's own topics"),
        pytest.param(
            {"control": "livejoin.ledger"},
            "one of livejoin's own topics",
        ),
    ],
)
def test_topics_must_differ_and_not_be_our_own(topics: dict[str, str], said: str) -> None:
    assert said in _refused(topics=topics)


def test_whose_topics_are_our_own_depends_on_the_name() -> None:
    assert settings.load(name="mine", topics={"users": "livejoin.ledger"})
    assert "own topics" in _refused(name="mine", topics={"users": "mine.ledger"})


# --- files


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    said = _refused(tmp_path / "nope.yaml")
    assert f"{tmp_path / 'nope.yaml'} cannot be read: No such file" in said
    assert "-c" in said


@pytest.mark.parametrize("content", [b"name: [1", b"\xff\xfe", b"a: b: c", b"name: x\n\tjoin: y"])
def test_a_file_that_is_not_yaml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_bytes(content)
    said = _refused(file)
    assert f"{file} is not YAML" in said
    assert "\n" not in said


@pytest.mark.parametrize(("text", "kind"), [("- name", "list"), ("name", "str"), ("5", "int")])
def test_a_file_that_holds_something_else_says_what(write: Write, text: str, kind: str) -> None:
    assert f"holds no settings, but {kind}" in _refused(write(text))


# --- what is taken from elsewhere


def test_values_may_come_from_variables_and_files(
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


def test_a_variable_of_ours_may_point_elsewhere_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "there:9092")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "${env:BROKER}")
    assert settings.load().kafka["bootstrap.servers"] == "there:9092"


def test_a_variable_that_is_not_set_is_named(write: Write) -> None:
    said = _refused(write("kafka: {bootstrap.servers: '${env:NO_SUCH_VARIABLE}'}"))
    assert said == "environment variable NO_SUCH_VARIABLE is not set"


def test_a_secrets_file_that_is_missing_is_named(write: Write) -> None:
    said = _refused(write("kafka: {bootstrap.servers: x, sasl.password: '${file:/no/such}'}"))
    assert said == "/no/such cannot be read: No such file or directory"


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
    assert "hush" not in _refused(write(text))


# --- secrets, and files of properties

LOGIN = """
kafka:
  bootstrap.servers: x
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: me
  sasl.password: %s
spark: {conf: {spark.hadoop.fs.s3a.secret.key: "%s", spark.driver.memory: 4g}}
"""


def test_no_way_to_print_the_settings_shows_a_secret(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "canary")
    chosen = settings.load(write(LOGIN % ("${env:SECRET}", "${env:SECRET}")))
    for shown in (repr(chosen), str(chosen), chosen.model_dump_json(), repr(chosen.model_dump())):
        assert "canary" not in shown
    assert chosen.warnings == ()


def test_a_secret_that_stands_in_the_file_as_it_is_gets_a_warning(write: Write) -> None:
    file = write(LOGIN % ("canary", "canary"))
    assert settings.load(file).warnings == tuple(
        f"{name} stands in {file} as it is: better ${{env:NAME}} or ${{file:PATH}}"
        for name in ("kafka.sasl.password", "spark.conf.spark.hadoop.fs.s3a.secret.key")
    )


def test_a_secret_from_the_environment_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    login = {"SECURITY_PROTOCOL": "sasl_ssl", "SASL_MECHANISMS": "plain", "SASL_USERNAME": "me"}
    for name, value in {**login, "SASL_PASSWORD": "canary"}.items():
        monkeypatch.setenv(f"LIVEJOIN_KAFKA__{name}", value)
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "x")
    chosen = settings.load()
    assert chosen.warnings == ()
    assert "canary" not in repr(chosen)


def test_a_file_of_client_properties_stands_below_the_block(write: Write, tmp_path: Path) -> None:
    below = tmp_path / "client.properties"
    below.write_text("bootstrap.servers=file:1\nclient.id=file\n")
    chosen = settings.load(write(f"kafka_file: {below}\nkafka: {{client.id: block}}"))
    assert chosen.kafka == {"bootstrap.servers": "file:1", "client.id": "block"}
    assert settings.load(kafka_file=str(below)).kafka["client.id"] == "file"
    assert "cannot be read" in _refused(kafka_file=str(tmp_path / "none"))


def test_older_names_of_properties_do(write: Write) -> None:
    assert settings.load(write("kafka: {metadata.broker.list: x}")).warnings == ()
    assert "is not a Kafka client property" in _refused(
        write("kafka: {bootstrap.servers: x, sasl.pasword: y}")
    )


def test_yaml_that_cannot_be_read_is_not_quoted(write: Write) -> None:
    said = _refused(write("kafka:\n  sasl.password: canary: canary\n"))
    assert "is not YAML, line 2: mapping values are not allowed here" in said
    assert "canary" not in said


# --- found wanting


@pytest.mark.parametrize("variable", ["LIVEJOIN_TOPICS", "LIVEJOIN_KAFKA", "LIVEJOIN_HTTP"])
def test_a_section_that_is_not_json_is_an_error_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "not JSON")
    assert variable in _refused()


@pytest.mark.parametrize("key", ["1", "on", "null"])
def test_a_key_that_is_no_text_is_an_error(write: Write, key: str) -> None:
    assert "is no setting" in _refused(write(f"{key}: x"))


def test_an_override_of_a_kafka_property_goes_over_another_spelling_of_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("kafka: {bootstrap.servers: 'file:1'}")
    monkeypatch.setenv("LIVEJOIN_KAFKA__BOOTSTRAP_SERVERS", "environment:2")
    chosen = settings.load(file, kafka={"bootstrap.servers": "override:3"})
    assert chosen.kafka == {"bootstrap.servers": "override:3"}


def test_a_property_whose_own_name_has_an_underscore_keeps_it(write: Write) -> None:
    file = write("kafka: {bootstrap.servers: x, log_level: 3}")
    assert settings.load(file).kafka["log_level"] == "3"
