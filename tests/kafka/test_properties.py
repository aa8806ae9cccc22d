"""Kafka's client properties: each key, under either name, as each client library gets it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from livejoin import redaction
from livejoin.errors import SettingsError
from livejoin.kafka import properties
from livejoin.kafka import property_table as table
from livejoin.kafka.login import MECHANISMS
from rig.authority import Authority

SERVERS = {"bootstrap.servers": "kafka:9092"}
PLAIN = {"security.protocol": "PLAINTEXT"}
SASL = {"security.protocol": "SASL_SSL"}
HOSTS = {"ssl.endpoint.identification.algorithm": "https"}
MODULE = "org.apache.kafka.common.security"
HANDLER = f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "https://login.example/token"
OIDC = SASL | {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.client.id": "livejoin",
    "sasl.oauthbearer.client.secret": "hush-hush",
    "sasl.oauthbearer.token.endpoint.url": URL,
}
OIDC_JAAS = (
    f'{MODULE}.oauthbearer.OAuthBearerLoginModule required password="-" clientId="livejoin"'
    ' clientSecret="hush-hush"'
)
# values that librdkafka accepts, where it refuses "1000"
VALUES = {
    "api.version.request": "true",
    "broker.address.family": "v4",
    "broker.version.fallback": "0.10.0",
    "check.crcs": "true",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.level": "3",
    "compression.type": "lz4",
    "debug": "conf",
    "enable.metrics.push": "false",
    "enable.random.seed": "true",
    "log.connection.close": "false",
    "log.thread.name": "true",
    "log_level": "3",
    "max.in.flight.requests.per.connection": "5",
    "metadata.recovery.strategy": "none",
    "queue.buffering.backpressure.threshold": "1",
    "reconnect.backoff.jitter.ms": "0",
    "socket.blocking.max.ms": "1000",
    "socket.keepalive.enable": "true",
    "socket.max.fails": "1",
    "socket.nagle.disable": "true",
    "ssl.crl.location": "/dev/null",
    "ssl.curves.list": "P-256",
    "ssl.sigalgs.list": "RSA+SHA256",
    "topic.metadata.refresh.sparse": "true",
}


def translated(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties for librdkafka and Java, without bootstrap.servers."""
    found = properties.client_properties({**SERVERS, **given})
    assert found.librdkafka.pop("bootstrap.servers") == SERVERS["bootstrap.servers"]
    assert found.java.pop("bootstrap.servers") == SERVERS["bootstrap.servers"]
    return found.librdkafka, found.java


def refused(given: Mapping[str, str]) -> str:
    with pytest.raises(SettingsError) as error:
        properties.client_properties({**SERVERS, **given})
    return str(error.value)


# --- the table, key by key


def test_each_property_is_in_one_place_of_the_table() -> None:
    places = (
        table.BOTH, table.RENAMED, table.RENAMED.values(), table.ALIASES, table.JAVA_ONLY,
        table.LIBRDKAFKA_ONLY, table.MANAGED, [table.START], table.LOGIN, table.CERTIFICATES,
        table.REFUSED,
    )  # fmt: skip
    assert sum(map(len, places)) == len(table.KNOWN)
    assert set(table.ALIASES.values()) <= table.KNOWN
    assert {name for name in redaction.KAFKA_SECRETS if "." not in name} == set()


@pytest.mark.parametrize("name", sorted(table.BOTH - SERVERS.keys()))
def test_properties_with_one_name_reach_both_libraries(name: str) -> None:
    value = VALUES.get(name, "1000")
    rdkafka, java = translated({name: value})
    assert rdkafka == PLAIN | {name: value}
    assert java == PLAIN | {name: value}


@pytest.mark.parametrize(("java_name", "rdkafka_name"), sorted(table.RENAMED.items()))
def test_properties_with_two_names_are_accepted_under_either(
    java_name: str, rdkafka_name: str
) -> None:
    for given in (java_name, rdkafka_name):
        rdkafka, java = translated({given: "1000"})
        assert rdkafka == PLAIN | {rdkafka_name: "1000"}
        assert java == PLAIN | {java_name: "1000"}


@pytest.mark.parametrize("name", sorted(table.JAVA_ONLY))
def test_java_properties_reach_java_only(name: str) -> None:
    with_login = {} if not name.startswith(("sasl", "ssl")) else OIDC
    rdkafka, java = translated(with_login | {name: "1"})
    assert java[name] == "1"
    assert name not in rdkafka


@pytest.mark.parametrize("name", sorted(table.LIBRDKAFKA_ONLY))
def test_librdkafka_properties_reach_librdkafka_only(name: str) -> None:
    with_tls = {} if not name.startswith("ssl") else {"security.protocol": "SSL"}
    rdkafka, java = translated(with_tls | {name: VALUES.get(name, "1000")})
    assert rdkafka[name] == VALUES.get(name, "1000")
    assert name not in java


@pytest.mark.parametrize("name", sorted(table.MANAGED))
def test_managed_properties_are_ignored_with_a_warning(name: str) -> None:
    found = properties.client_properties(SERVERS | {name: "1"})
    assert found.librdkafka == SERVERS | PLAIN
    assert found.java == SERVERS | PLAIN
    assert found.warnings == (f"kafka.{name} is ignored: livejoin sets it itself",)


@pytest.mark.parametrize(("name", "other"), sorted(table.ALIASES.items()))
def test_aliases_mean_the_same(name: str, other: str) -> None:
    values = {
        "sasl.mechanism": "PLAIN",
        "compression.type": "lz4",
        "bootstrap.servers": "kafka:9092",
    }
    value = values.get(other, "1000")
    login = {"sasl.username": "u", "sasl.password": "pppppp"} | SASL if "sasl" in other else {}
    login = OIDC if "oauth" in other else login
    found, expected = (
        {k: v for k, v in login.items() if k != other} | {n: value} for n in (name, other)
    )
    assert properties.client_properties(SERVERS | found) == properties.client_properties(
        SERVERS | expected
    )


@pytest.mark.parametrize(("name", "why"), sorted(table.REFUSED.items()))
def test_refused_properties_have_a_reason(name: str, why: str) -> None:
    whole = f"{name}something" if name.endswith(".") else name
    assert refused({whole: "x"}) == f"kafka.{whole}: {why}"


def test_the_start_position_reaches_neither_library() -> None:
    assert translated({"auto.offset.reset": "latest"}) == (PLAIN, PLAIN)


def test_librdkafka_accepts_all_its_properties() -> None:
    given = {name: VALUES.get(name, "1000") for name in table.BOTH | table.LIBRDKAFKA_ONLY}
    given |= dict.fromkeys(table.RENAMED.values(), "100000") | SERVERS
    given |= {"debug": "", "delivery.timeout.ms": "60000", "log_level": "0"}
    given |= {"receive.message.max.bytes": "200000000", "ssl.crl.location": ""}
    given |= {"transaction.timeout.ms": "50000", "queued.max.messages.kbytes": "100000"}
    found = properties.client_properties(given | {"security.protocol": "SSL"}).librdkafka
    found = {name: value for name, value in found.items() if value}
    Consumer({**found, "group.id": "x"}).close()
    Producer(found)
    AdminClient(dict[str, str | int | float | bool](found))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sasl.pasword", "is not a Kafka client property: did you mean sasl.password?"),
        ("bootstrap.server", "did you mean bootstrap.servers?"),
        ("zzz", "kafka.zzz is not a Kafka client property"),
    ],
)  # fmt: skip
def test_an_unknown_property_is_an_error_with_a_suggestion(name: str, message: str) -> None:
    assert message in refused({name: "x"})


def test_a_property_under_two_names_must_have_one_value() -> None:
    both = {"metadata.broker.list": "elsewhere:9092"}
    assert refused(both) == "kafka: bootstrap.servers is set twice, with different values"


# --- logins


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("spelling", [str.upper, str.lower])
def test_usernames_and_passwords_reach_both_libraries(mechanism: str, spelling: type[str]) -> None:
    java_module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    password = 'a "quoted\\ one'
    expected_rdkafka = SASL | HOSTS | {
        "sasl.mechanism": mechanism, "sasl.username": "me", "sasl.password": password,
    }  # fmt: skip
    jaas = f'{MODULE}.{java_module} required username="me" password="a \\"quoted\\\\ one";'
    expected_java = SASL | HOSTS | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    for given in (
        {"sasl.username": "me", "sasl.password": password},
        {"sasl.jaas.config": jaas},
        {"sasl.jaas.config": f"{MODULE}.{java_module} REQUIRED\n"
         "  password='a \"quoted\\\\ one'\n  username=me"},
    ):  # fmt: skip
        how = {"security.protocol": spelling("SASL_SSL"), "sasl.mechanism": spelling(mechanism)}
        assert translated(how | given) == (expected_rdkafka, expected_java)


def test_a_jaas_configuration_implies_the_mechanism_where_it_can() -> None:
    plain = f'{MODULE}.plain.PlainLoginModule required username="u" password="pppppp";'
    assert translated(SASL | {"sasl.jaas.config": plain})[0]["sasl.mechanism"] == "PLAIN"
    scram = f'{MODULE}.scram.ScramLoginModule required username="u" password="pppppp";'
    assert "sasl.mechanism is not set" in refused(SASL | {"sasl.jaas.config": scram})
    differs = SASL | {"sasl.jaas.config": plain, "sasl.mechanism": "OAUTHBEARER"}
    assert "sasl.mechanism and sasl.jaas.config contradict each other" in refused(differs)


def test_client_credentials_in_librdkafka_names_reach_both_libraries() -> None:
    more = {
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.scope": "kafka read",
        "sasl.oauthbearer.sub.claim.name": "client",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
    }
    rdkafka, java = translated(OIDC | more)
    extensions = {"sasl.oauthbearer.extensions": "identityPoolId=pool-2,logicalCluster=lkc-1"}
    assert rdkafka == OIDC | HOSTS | more | extensions | {"sasl.oauthbearer.method": "oidc"}
    assert java == SASL | HOSTS | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.oauthbearer.sub.claim.name": "client",
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.jaas.config": f'{OIDC_JAAS} scope="kafka read" extension_identityPoolId="pool-2"'
        ' extension_logicalCluster="lkc-1";',
    }  # fmt: skip


@pytest.mark.parametrize("package", ["oauthbearer", "oauthbearer.secured"])
def test_client_credentials_in_java_names_reach_both_libraries(package: str) -> None:
    given = SASL | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{MODULE}.{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"
        " clientId='livejoin' clientSecret='hush-hush' scope='kafka'"
        " extension_logicalCluster='lkc-1' extension_identityPoolId='pool-2';",
    }
    assert translated(given)[0] == OIDC | HOSTS | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "identityPoolId=pool-2,logicalCluster=lkc-1",
    }  # fmt: skip
    assert translated(given)[1]["sasl.login.callback.handler.class"] == HANDLER


@pytest.mark.parametrize(
    "prefix", ["sasl.oauthbearer.extensions.", "extensions.", "extension_", "Extension_"]
)
def test_extensions_may_be_separate_properties(prefix: str) -> None:
    each = {f"{prefix}logicalCluster": "lkc-1", f"{prefix}identityPoolId": "pool-2"}
    at_once = {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2"}
    assert translated(OIDC | each) == translated(OIDC | at_once)


def test_java_is_allowed_to_use_the_configured_token_endpoint_only() -> None:
    flag = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={URL}"
    assert properties.jvm_options([properties.client_properties(SERVERS | OIDC).token_url]) == (
        flag,
    )
    assert properties.jvm_options([properties.client_properties(SERVERS).token_url]) == ()


def test_the_ca_of_the_token_endpoint_reaches_both_libraries(tmp_path: Path) -> None:
    ca = Authority()
    escaped = ca.pem.replace("\n", "\\n")
    for given in (
        {"https.ca.pem": ca.pem},
        {"https.ca.location": str(ca.file(tmp_path / "ca.pem"))},
        {"sasl.jaas.config": f"{OIDC_JAAS} ssl.truststore.type=PEM"
         f' ssl.truststore.certificates="{escaped}";'},
    ):  # fmt: skip
        rdkafka, java = translated(OIDC | given)
        assert rdkafka["https.ca.pem"] == ca.pem
        trusted = f'ssl.truststore.type="PEM" ssl.truststore.certificates="{escaped}";'
        assert java["sasl.jaas.config"].endswith(trusted)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl.username": "u"}, "sasl.username is set, but security.protocol is not"),
        ({"sasl.username": "u"}, "Set security.protocol: SASL_SSL"),
        ({"sasl.username": "u"} | PLAIN, "but security.protocol is PLAINTEXT"),
        ({"sasl.username": "u", "security.protocol": "SSL"}, "but security.protocol is SSL"),
        ({"ssl.ca.location": "/x"}, "Set security.protocol: SSL"),
        ({"ssl.ca.location": "/x", "security.protocol": "plaintext"}, "is PLAINTEXT"),
        ({"security.protocol": "TLS"}, "Use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (SASL, "sasl.mechanism is not set. Use one of PLAIN,"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI"),
        (SASL | {"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "PLAIN needs sasl.password"),
        (OIDC | {"sasl.oauthbearer.client.secret": ""}, "or clientSecret in sasl.jaas.config"),
        (OIDC | {"sasl.oauthbearer.token.endpoint.url": "http://x/t"}, "unencrypted"),
        (OIDC | {"sasl.oauthbearer.method": "default"}, "can only be oidc"),
        (OIDC | {"sasl.oauthbearer.grant.type": "jwt-bearer"}, "only be client_credentials"),
        (OIDC | {"sasl.login.callback.handler.class": "com.x.Y"}, HANDLER),
        (OIDC | {"sasl.oauthbearer.extensions": "lonely"}, "Write NAME=VALUE,NAME=VALUE"),
        (OIDC | {"sasl.oauthbearer.extensions": "auth=x"}, "'auth' cannot be an extension"),
        (SASL | {"sasl.jaas.config": "nonsense"}, "sasl.jaas.config cannot be parsed"),
        (SASL | {"sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required a=b;"}, "option a"),
        (SASL | {"sasl.jaas.config": "com.x.Module required;"}, "names com.x.Module"),
        (SASL | {"sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required; x"}, "cannot be"),
        (SASL | {"ssl.endpoint.identification.algorithm": ""} | OIDC, "host names are verified"),
        (OIDC | {"ssl.endpoint.identification.algorithm": "none"}, "could impersonate the broker"),
        (OIDC | {"enable.ssl.certificate.verification": "false"}, "could impersonate the broker"),
    ],
)  # fmt: skip
def test_incomplete_logins_are_refused_without_fallback(
    given: dict[str, str], message: str
) -> None:
    assert message in refused(given)


def test_a_token_endpoint_on_this_machine_needs_no_tls() -> None:
    url = "http://127.0.0.1:8080/token"
    found = translated(OIDC | {"sasl.oauthbearer.token.endpoint.url": url})
    assert found[0]["sasl.oauthbearer.token.endpoint.url"] == url


def test_an_unencrypted_password_is_accepted_with_a_warning() -> None:
    how = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    found = properties.client_properties(
        SERVERS | how | {"sasl.username": "u", "sasl.password": "pppppp"}
    )
    assert found.warnings == ("kafka: with SASL_PLAINTEXT passwords and data travel unencrypted",)


# --- certificates


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority()


SSL = {"security.protocol": "SSL"}


def test_trusted_certificates_reach_both_libraries_as_pem(ca: Authority, tmp_path: Path) -> None:
    file = str(ca.file(tmp_path / "ca.pem"))
    store = str(ca.sign("broker").pkcs12(tmp_path / "trust.p12", "hush-hush"))
    for given in (
        {"ssl.ca.location": file},
        {"ssl.ca.pem": ca.pem},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": file},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem},
        {"ssl.truststore.location": store, "ssl.truststore.password": "hush-hush"},
    ):
        rdkafka, java = translated(SSL | given)
        assert rdkafka.keys() == SSL.keys() | HOSTS.keys() | {"ssl.ca.pem"}
        assert ca.pem in rdkafka["ssl.ca.pem"]
        assert java == SSL | HOSTS | {
            "ssl.truststore.type": "PEM", "ssl.truststore.certificates": rdkafka["ssl.ca.pem"],
        }  # fmt: skip
    assert translated(SSL | {"ssl.ca.location": "probe"}) == (SSL | HOSTS, SSL | HOSTS)


@pytest.mark.parametrize("password", ["", "hush-hush"])
def test_the_client_certificate_reaches_both_libraries_as_pem(
    ca: Authority, tmp_path: Path, password: str
) -> None:
    own = ca.sign("me")
    key = own.key_pem(password)
    names = {name: str(tmp_path / name) for name in ("key", "old-key", "certificate", "both")}
    Path(names["key"]).write_text(key)
    Path(names["old-key"]).write_text(own.key_pem(password, traditional=True))
    Path(names["certificate"]).write_text(own.pem)
    Path(names["both"]).write_text(key + own.pem)
    locked = {"ssl.key.password": password} if password else {}
    for given in (
        {"ssl.certificate.location": names["certificate"], "ssl.key.location": names["key"]},
        {"ssl.certificate.location": names["certificate"], "ssl.key.location": names["old-key"]},
        {"ssl.certificate.pem": own.pem, "ssl.key.pem": key},
        {"ssl.keystore.certificate.chain": own.pem, "ssl.keystore.key": key,
         "ssl.keystore.type": "PEM"},
        {"ssl.keystore.location": names["both"], "ssl.keystore.type": "PEM"},
    ):  # fmt: skip
        rdkafka, java = translated(SSL | locked | given)
        expected = {"ssl.certificate.pem": own.pem, "ssl.key.pem": own.key_pem()}
        assert rdkafka == SSL | HOSTS | expected
        assert java == SSL | HOSTS | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": own.pem,
            "ssl.keystore.key": own.key_pem(),
        }  # fmt: skip


def test_a_pkcs12_key_store_reaches_both_libraries_as_pem(ca: Authority, tmp_path: Path) -> None:
    own = ca.sign("me")
    store = str(own.pkcs12(tmp_path / "own.p12", "hush-hush"))
    given = SSL | {"ssl.keystore.location": store, "ssl.keystore.password": "hush-hush"}
    rdkafka, java = translated(given)
    assert rdkafka["ssl.key.pem"] == java["ssl.keystore.key"] == own.key_pem()
    assert rdkafka["ssl.certificate.pem"] == own.pem + ca.pem
    assert "neither PEM nor PKCS12" in refused(given | {"ssl.keystore.password": "wrong"})


def test_a_jks_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed....")
    for name in ("ssl.truststore.location", "ssl.keystore.location"):
        message = refused(SSL | {name: str(store), "ssl.truststore.type": "JKS"})
        assert f"keytool -importkeystore -srckeystore {store}" in message
        assert f"-destkeystore {tmp_path / 'trust.p12'} -deststoretype PKCS12" in message


def test_that_keytool_command_works(ca: Authority, tmp_path: Path) -> None:
    ca.file(tmp_path / "ca.pem")
    store = tmp_path / "trust.jks"
    make = ["keytool", "-importcert", "-noprompt", "-file", str(tmp_path / "ca.pem")]
    make += ["-keystore", str(store), "-storetype", "JKS", "-storepass", "hush-hush"]
    subprocess.run(make, check=True, capture_output=True)
    message = refused(SSL | {"ssl.truststore.location": str(store)})
    line = message[message.index("keytool -") :].split()
    line += ["-srcstorepass", "hush-hush", "-deststorepass", "hush-hush"]
    subprocess.run(line, check=True, capture_output=True)
    given = {"ssl.truststore.location": str(tmp_path / "trust.p12")}
    found = translated(SSL | given | {"ssl.truststore.password": "hush-hush"})
    assert found[0]["ssl.ca.pem"] == ca.pem


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.ca.location": "/no/such"}, "ssl.ca.location: /no/such cannot be read: No such file"),
        ({"ssl.ca.pem": "hunter2"}, "ssl.ca.pem contains no PEM certificate"),
        ({"ssl.ca.pem": "x", "ssl.truststore.location": "y"}, "both set trusted certificates"),
        ({"ssl.key.pem": "x"}, "also needs ssl.certificate.location"),
    ],
)
def test_unusable_certificates_are_named(given: dict[str, str], message: str) -> None:
    assert message in refused(SSL | given)


def test_a_wrong_key_password_is_reported_without_the_key(ca: Authority) -> None:
    own = ca.sign("me")
    given = SSL | {"ssl.certificate.pem": own.pem, "ssl.key.pem": own.key_pem("hush-hush")}
    assert refused(given) == "kafka: the key in ssl.key.pem needs ssl.key.password"
    message = refused(given | {"ssl.key.password": "other-one"})
    assert message == "kafka: the key in ssl.key.pem is not PEM, or needs another ssl.key.password"


# --- files and secrets


def test_a_properties_file_is_read_as_java_does(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\n! another\n\n"
        "bootstrap.servers = a:1,\\\n    b:2\n"
        "sasl.mechanism:PLAIN\n"
        "security.protocol SASL_SSL\n"
        'sasl.jaas.config=org.x required \\\n  username="\\u0041" \\\n  password="a\\\\b";\n'
        "extension_logicalCluster=lkc-1\n"
        "empty=\n"
    )  # fmt: skip
    assert properties.read_file(file) == {
        "bootstrap.servers": "a:1,b:2",
        "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": 'org.x required username="A" password="a\\b";',
        "sasl.oauthbearer.extensions.logicalCluster": "lkc-1",
        "empty": "",
    }
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        properties.read_file(tmp_path / "none")


def test_secrets_are_redacted_from_every_text(ca: Authority) -> None:
    own = ca.sign("me")
    mine = {"sasl.oauthbearer.client.secret": "canary-client", "ssl.key.pem": own.key_pem()}
    found = properties.client_properties(SERVERS | OIDC | mine | {"ssl.certificate.pem": own.pem})
    for shown in ("canary-client", own.key_pem(), found.java["sasl.jaas.config"]):
        assert redaction.redact(f"<{shown}>") == "<(hidden)>"
    assert str(SettingsError("it is canary-client")) == "it is (hidden)"
    assert "canary-client" not in repr(found)
