"""Access control with the default settings: tokens in Kafka, known to and revoked at every server.

With a fake leader and real `livejoin serve` processes; without Spark.
"""

import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from livejoin import client, orchestrator
from livejoin.core.names import Names
from livejoin.errors import RequestError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from livejoin.runtime import processes
from livejoin.tables.auth import sessions_and_codes
from livejoin.tables.auth.access_topics import (
    create_first_tokens,
    create_topics,
    read_tokens,
    revoke,
)
from rig.ledgered import FakeLeader
from rig.running import LIVEJOIN, Running, running, until

NAME = "secure"
SECURE = {"insecure": False}
CLOSED_S = 5  # D1


class Tokens:
    """`livejoin token`, run as a command."""

    def __init__(self, folder: Path, kafka: Kafka) -> None:
        self.file = folder / "tokens.yaml"
        self.file.write_text(json.dumps({"name": NAME, "kafka": kafka.properties}))
        self.tokens: list[str] = []

    def run(self, *arguments: str) -> Any:
        command = [str(LIVEJOIN), "token", *arguments, "-c", str(self.file), "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def create(self, role: str, *more: str) -> dict[str, str]:
        token: dict[str, str] = self.run("make", "--role", role, *more)
        self.tokens.append(token["token"])
        return token


def status(server: Running, path: str, token: str = "", context: Any = None) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(server.url + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def answers(server: Running, path: str, token: str = "") -> bool:
    return status(server, path, token) == 200


@pytest.fixture(scope="module")
def leader(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> FakeLeader:
    one = FakeLeader(kafka, tmp_path_factory.mktemp("ledgered"), NAME)
    one.set_live(one.write_generation(1, 10))
    return one


@pytest.fixture
def tokens(kafka: Kafka, tmp_path: Path) -> Tokens:
    return Tokens(tmp_path, kafka)


@pytest.fixture
def servers(kafka: Kafka, tmp_path: Path, leader: FakeLeader) -> Iterator[list[Running]]:
    """Two servers that require tokens."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running(kafka, tmp_path / f"serve-{n}", command="serve", name=NAME, http=SECURE)
            )
            for n in (1, 2)
        ]


def test_a_token_is_valid_at_every_server_until_it_is_revoked(
    servers: list[Running], tokens: Tokens, kafka: Kafka
) -> None:
    for server in servers:
        until(partial(answers, server, "livez"), "it responds")
    operator, viewer = tokens.create("operator"), tokens.create("viewer", "--label", "wall")
    brief = tokens.create("viewer", "--expires", "1s")
    for server in servers:
        until(partial(answers, server, "readyz?verbose", viewer["token"]), "the token is known")
        assert status(server, "api/v1/tables/final_ui") == 401
        assert status(server, "api/v1/tables/audit", viewer["token"]) == 403
        assert status(server, "api/v1/tables/audit", operator["token"]) == 200
    until(lambda: status(servers[0], "api/v1/status", brief["token"]) == 401, "it expires")
    _expect_revoked_everywhere(servers, tokens, viewer)
    _expect_listed(tokens, viewer, operator)
    _expect_audited_without_secrets(servers, tokens, operator, kafka)


def _expect_revoked_everywhere(
    servers: list[Running], tokens: Tokens, viewer: dict[str, str]
) -> None:
    """Check that the sockets of a revoked token are closed in time at every server."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(
                connect(
                    server.url.replace("http", "ws") + "api/v1/live",
                    additional_headers={"Authorization": f"Bearer {viewer['token']}"},
                    subprotocols=[Subprotocol("livejoin.v1")],
                    proxy=None,
                )
            )
            for server in servers
        ]
        for socket in sockets:
            socket.send(json.dumps({"subscribe": ["final_ui"]}))
            socket.recv(10)
        tokens.run("revoke", viewer["id"])
        revoked = time.monotonic()
        for socket in sockets:
            assert _close_code(socket) == 4401
        assert time.monotonic() - revoked < CLOSED_S
    for server in servers:
        assert status(server, "api/v1/status", viewer["token"]) == 401


def _close_code(socket: Any) -> int:
    try:
        while True:
            socket.recv(10)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else 0


def _expect_listed(tokens: Tokens, viewer: dict[str, str], operator: dict[str, str]) -> None:
    tokens_by_id = {one["id"]: one for one in tokens.run("list")["tokens"]}
    assert tokens_by_id["console"]["state"] == "valid"
    assert tokens_by_id[viewer["id"]]["state"] == "revoked"
    assert tokens_by_id[viewer["id"]]["label"] == "wall"
    assert tokens_by_id[operator["id"]]["state"] == "valid"
    assert not [text for text in tokens.tokens if text in json.dumps(tokens_by_id)]


def _expect_audited_without_secrets(
    servers: list[Running], tokens: Tokens, operator: dict[str, str], kafka: Kafka
) -> None:
    """Check that the audit table has the actions, and that no topic or log contains a token."""
    with client.connect(servers[1].url, operator["token"]) as connection:
        rows = connection.table("audit").to_arrow().to_pylist()
        actions = [row["action"] for row in rows]
        assert [action.split()[0] for action in actions[:3]] == ["make"] * 3
        assert any(action.startswith("revoke token") for action in actions)
        refused = [row for row in rows if (row["outcome"] or "").startswith("refused")]
        assert {row["outcome"] for row in refused} == {"refused: 401", "refused: 403"}
        assert {row["address"] for row in refused} == {"127.0.0.1"}
        with pytest.raises(RequestError, match="401"):
            client.connect(servers[1].url)
    names = Names(NAME)
    written = b"".join(_all(kafka, topic) for topic in (names.tokens, names.audit))
    written += b"".join(server.log.read_bytes() for server in servers)
    assert b'"hash"' in written
    for text in tokens.tokens:
        assert text.encode() not in written
        assert text.split("_", 2)[2].encode() not in written  # a secret may contain an underscore


def _all(kafka: Kafka, topic: str) -> bytes:
    consumer = kafka.reader("secure.test")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return b"".join(record.key + record.value for record in read_to_end(consumer, topic))
    finally:
        consumer.close()


class Browser:
    """A browser session, which can be copied and used at any server."""

    def __init__(self, cookie: str = "") -> None:
        self.cookie = cookie  # without its name, which contains the port

    def request(self, server: Running, path: str, method: str = "GET", body: Any = None) -> int:
        headers = {
            "Origin": server.url.rstrip("/"),
            "content-type": "application/json",
            "Cookie": f"livejoin_{server.port}={self.cookie}",
        }
        raw = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server.url + path, raw, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                if given := answer.headers["set-cookie"]:
                    self.cookie = given.partition("=")[2].partition(";")[0]
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def sign_in(self, server: Running, **given: Any) -> None:
        assert self.request(server, "api/v1/session", "POST", given) == 200

    def known(self, server: Running) -> bool:
        return self.request(server, "api/v1/whoami") == 200

    def refused(self, server: Running) -> bool:
        return self.request(server, "api/v1/whoami") == 401


def test_a_signed_out_session_ends_at_every_server_for_good(
    servers: list[Running], tokens: Tokens
) -> None:
    first, second = servers
    viewer = tokens.create("viewer")["token"]
    for server in servers:
        until(partial(answers, server, "readyz?verbose", viewer), "the token is known")
    browser, other = Browser(), Browser()
    browser.sign_in(first, token=viewer)
    other.sign_in(first, token=viewer)
    copies = [Browser(browser.cookie)]
    browser.sign_in(second, renew=True)  # behind a load balancer
    copies.append(Browser(browser.cookie))
    assert all(copy.known(server) for copy in copies for server in servers)
    assert browser.request(first, "api/v1/session", "DELETE") == 204
    for copy in copies:
        for server in servers:
            until(partial(copy.refused, server), "the session has ended at every server", CLOSED_S)
    second.stop()
    second.start()
    until(partial(other.known, second), "other sessions go on")
    assert [copy.refused(second) for copy in copies] == [True, True]
    for copy in copies:
        assert copy.request(second, "api/v1/session", "POST", {"renew": True}) == 401


def test_the_consoles_sessions_can_be_revoked(servers: list[Running], tokens: Tokens) -> None:
    first, second = servers
    tokens.run("list")  # the topics exist now
    until(partial(answers, first, "livez"), "it responds")
    key = sessions_and_codes.load_session_key(processes.state_folder() / NAME / "session")
    browser = Browser(sessions_and_codes.Sessions(key).start(sessions_and_codes.CONSOLE))
    until(partial(browser.known, first), "the console session is valid")
    assert tokens.run("revoke", "console")["state"].startswith("revoked before ")
    for server in servers:
        until(partial(browser.refused, server), "the session has ended", CLOSED_S)
    second.stop()
    second.start()
    until(partial(browser.refused, second), "the session has ended after a restart")
    (tokens_by_id,) = [one for one in tokens.run("list")["tokens"] if one["id"] == "console"]
    assert tokens_by_id["state"].startswith("revoked before ")
    later = Browser(sessions_and_codes.Sessions(key).start(sessions_and_codes.CONSOLE))
    assert later.known(first)


def test_the_first_leader_creates_one_token_of_each_role_and_later_leaders_none(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    names = Names("first")
    create_topics(kafka, names)
    token = create_first_tokens(kafka, names)
    assert [role for role, _ in token] == ["viewer", "operator"]
    orchestrator._print_tokens(token)
    printed = capsys.readouterr()
    assert [text in printed.out for _, text in token] == [True, True]
    assert printed.err == ""
    assert create_first_tokens(kafka, names) == []
    known_ones = read_tokens(kafka, names)
    for token_id in known_ones:
        revoke(kafka, names, token_id)
    assert create_first_tokens(kafka, names) == []  # revoked tokens count as existing
    assert [read_token.revoked for read_token in read_tokens(kafka, names).values()] == [True, True]
    with pytest.raises(RequestError, match="there is no token"):
        revoke(kafka, names, "nope")


def test_with_tls_all_traffic_is_encrypted_and_the_host_name_is_checked(
    kafka: Kafka, tmp_path: Path, leader: FakeLeader, tokens: Tokens
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=livejoin", "-keyout", str(key)]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate)]
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    http = {**SECURE, "host": "0.0.0.0", "tls": {"certificate": str(certificate), "key": str(key)}}
    viewer = tokens.create("viewer")["token"]
    trusting = ssl.create_default_context(cafile=str(certificate))
    folder = tmp_path / "tls"
    with running(kafka, folder, command="serve", name=NAME, http=http) as server:
        server.url = server.url.replace("http:", "https:")
        until(lambda: status(server, "readyz?verbose", viewer, trusting) == 200, "it serves")
        assert status(server, "api/v1/status", "", trusting) == 401
        assert status(server, "api/v1/status", viewer, ssl.create_default_context()) == 0
        http_url = server.url.replace("https:", "http:")
        with pytest.raises(OSError, match=r"reset|closed|Remote"):
            urllib.request.urlopen(http_url, timeout=10)
        assert f"https://127.0.0.1:{server.port}/" in server.log.read_text()
        env = {**os.environ, "SSL_CERT_FILE": str(certificate), "LIVEJOIN_TOKEN": viewer}
        result = subprocess.run(
            [LIVEJOIN, "tables", "--url", server.url],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=env,
        )
        assert "final_ui" in result.stdout, result.stderr
