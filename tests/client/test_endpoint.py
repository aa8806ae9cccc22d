"""Requests of the Python client and the command line differ only in hints and a header."""

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest

import livejoin
from client.pretender import fake_server
from livejoin.cli.options import COMMAND_LINE
from livejoin.cli.options import endpoint as endpoint_of_commands
from livejoin.client.endpoint import PYTHON, ClientProgram, Endpoint
from livejoin.errors import Rejected, RequestError, Unreachable

PROGRAMS = (PYTHON, COMMAND_LINE)
PROBLEM = json.dumps({"title": "no", "detail": "what is wrong"})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_request_has_the_token_and_names_the_program(program: ClientProgram) -> None:
    with fake_server(lambda _: (200, '{"a": 1}')) as (url, received):
        endpoint = Endpoint(url, "s3cret", program)
        assert endpoint.call("api/v1/status") == {"a": 1}
        assert b"".join(endpoint.stream("api/v1/tables/final_ui")) == b'{"a": 1}'
    assert [request.path for request in received] == ["/api/v1/status", "/api/v1/tables/final_ui"]
    for request in received:
        assert request.headers["Authorization"] == "Bearer s3cret"
        assert request.headers["Livejoin-Client"] == program.name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (400, PROBLEM, RequestError, "what is wrong"),
        (401, PROBLEM, RequestError, "livejoin at {url} denied access: 401 what is wrong"),
        (403, PROBLEM, RequestError, "livejoin at {url} denied access: 403 what is wrong"),
        (403, "<html>", RequestError, "livejoin at {url} denied access: 403 Forbidden"),
        (422, PROBLEM, Rejected, "rejected: what is wrong"),
        (503, PROBLEM, RequestError, "what is wrong"),
        (404, "<html>", Unreachable, "no livejoin responds at {url}: HTTP Error 404: Not Found"),
        (500, "[]", Unreachable, "no livejoin responds at {url}: {error}"),
        (
            302,
            "",
            Unreachable,
            "no livejoin responds at {url}: {error}, redirects to /elsewhere",
        ),
    ],
)
def test_an_error_response_is_raised(  # noqa: PLR0917
    status: int,
    body: str,
    error: type[RequestError],
    message: str,
    streamed: bool,  # noqa: FBT001
    program: ClientProgram,
) -> None:
    with fake_server(lambda _: (status, body)) as (url, received):
        endpoint = Endpoint(url, "s3cret", program)
        with pytest.raises(RequestError) as raised:
            list(endpoint.stream("x")) if streamed else endpoint.call("x")
    assert type(raised.value) is error
    phrase = f"HTTP Error {status}: {HTTPStatus(status).phrase}"
    assert raised.value.message == message.format(url=url, error=phrase)
    hint = program.access_hint if status == 401 else ""
    assert raised.value.hint == (program.url_hint if error is Unreachable else hint)
    assert len(received) == 1  # in particular no redirect is followed


@pytest.mark.parametrize("body", ["<html>", "[]", '"text"', "null"])
def test_another_server_is_unreachable(body: str) -> None:
    with fake_server(lambda _: (200, body)) as (url, _), pytest.raises(Unreachable):
        Endpoint(url).call("x")


def test_a_response_without_the_expected_key_is_of_another_server() -> None:
    with fake_server(lambda _: (200, '{"a": 1}')) as (url, _):
        assert Endpoint(url).call("x", expected_key="a") == {"a": 1}
        with pytest.raises(Unreachable, match="not a livejoin server"):
            Endpoint(url).call("x", expected_key="sources")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:10000", "ftp://x/", "http://x:abc/", "http://x:99999/", "http://[::1/"]
)
@pytest.mark.parametrize("make", [Endpoint, endpoint_of_commands])
def test_a_malformed_url_is_named(make: Callable[[str], Endpoint], url: str) -> None:
    with pytest.raises(RequestError, match="is not an HTTP URL") as raised:
        make(url)
    assert repr(url) in raised.value.message


@pytest.mark.parametrize("token", ["s3cret\nX: y", "s3cret\n", "s3cr€t"])
def test_a_malformed_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(RequestError, match="the token is malformed") as raised:
        Endpoint("http://127.0.0.1:1/", token)
    assert "s3c" not in str(raised.value)


def test_no_other_module_sends_http_requests() -> None:
    source = Path(livejoin.__file__).parent
    senders = re.compile(r"HTTPS?Connection\(|urlopen\(|build_opener\(|urllib\.request\.Request\(")
    found = [file for file in source.rglob("*.py") if senders.search(file.read_text())]
    assert found == [source / "client" / "endpoint.py"]
