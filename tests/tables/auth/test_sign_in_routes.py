"""Sessions, codes, tickets, and protection against cross-site requests."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livejoin.core.tokens import EndedSessions, Role, identity_record, session_record
from livejoin.tables.auth import authentication, sessions_and_codes
from livejoin.tables.auth.authentication import TokenRegistry
from livejoin.tables.auth.sessions_and_codes import (
    CONSOLE,
    Identity,
    OneTimeSecrets,
    Sessions,
    Unauthenticated,
)
from livejoin.tables.ingest.catalog import Catalog
from tables.auth_fixture import AuthFixture
from tables.live_server import HttpResponse, RunningServer, run_server
from tables.samples import chunk, final, live

JSON = {"content-type": "application/json"}
OTHER = "https://app.example.com"


@pytest.fixture(scope="module")
def auth() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def server(auth: AuthFixture) -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(
        catalog, access=auth.access(origins=[OTHER], hosts=["live.example.com"])
    ) as one:
        yield one


def _own(server: RunningServer) -> dict[str, str]:
    return {"Origin": f"http://127.0.0.1:{server.port}"}


def _sign_in(server: RunningServer, given: Any, **headers: str) -> HttpResponse:
    body = json.dumps(given).encode()
    return server.request("/api/v1/session", "POST", body, **{**JSON, **_own(server), **headers})


def _cookie(response: HttpResponse) -> dict[str, str]:
    return {"Cookie": response.headers["set-cookie"].partition(";")[0]}


def _session(server: RunningServer, auth: AuthFixture, name: str) -> dict[str, str]:
    response = _sign_in(server, {"token": auth.texts[name]})
    assert response.status == 200
    return _cookie(response)


# --- signing in and out


def test_a_token_starts_a_session_with_an_http_only_cookie(
    server: RunningServer, auth: AuthFixture
) -> None:
    response = _sign_in(server, {"token": f" {auth.texts['viewer']}\n"})
    assert response.status == 200
    assert response.json()["role"] == "viewer"
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"livejoin_{server.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert auth.texts["viewer"] not in cookie
    who = server.request("/api/v1/whoami", **_cookie(response))
    assert who.json() == {**response.json(), "label": "viewer"}
    assert who.headers["cache-control"] == "no-store"


def test_behind_a_proxy_with_tls_the_cookie_is_secure(
    server: RunningServer, auth: AuthFixture
) -> None:
    headers = {"Host": "live.example.com", "Origin": "https://live.example.com"}
    response = _sign_in(server, {"token": auth.texts["viewer"]}, **headers)
    assert response.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("kind", ["wrong", "expired", "revoked"])
def test_an_invalid_token_starts_no_session(
    server: RunningServer, auth: AuthFixture, kind: str
) -> None:
    response = _sign_in(server, {"token": auth.texts[kind]})
    assert response.status == 401
    assert "set-cookie" not in response.headers
    assert "refused: 401" in {row["outcome"] for row in auth.audit.rows}


@pytest.mark.parametrize(
    "given", [{}, [], {"token": 5}, {"code": None}, {"renew": False}, "x", {"token": ["lj_"]}]
)
def test_an_invalid_body_starts_no_session(server: RunningServer, given: Any) -> None:
    response = _sign_in(server, given)
    assert response.status == 400
    assert "expected" in response.json()["detail"]


def test_a_large_or_non_json_body_starts_no_session(server: RunningServer) -> None:
    assert _sign_in(server, {"token": "x" * 5000}).status == 413
    assert _sign_in(server, {}, **{"content-type": "text/plain"}).status == 415
    assert server.request("/api/v1/session", "POST", b"{", **JSON).status == 400


def test_signing_out_ends_the_session(server: RunningServer, auth: AuthFixture) -> None:
    cookie = _session(server, auth, "viewer")
    assert server.request("/api/v1/status", **cookie).status == 200
    gone = server.request("/api/v1/session", "DELETE", **cookie, **_own(server))
    assert gone.status == 204
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert server.request("/api/v1/status", **cookie).status == 401
    assert {"sign in", "sign out"} <= {row["action"] for row in auth.audit.rows}


def _sign_out(server: RunningServer, cookie: dict[str, str]) -> HttpResponse:
    return server.request("/api/v1/session", "DELETE", **cookie, **_own(server))


def test_signing_out_ends_all_renewals_of_a_session(
    server: RunningServer, auth: AuthFixture
) -> None:
    first = _session(server, auth, "viewer")
    second = _cookie(_sign_in(server, {"renew": True}, **first))
    third = _cookie(_sign_in(server, {"renew": True}, **second))
    other = _session(server, auth, "viewer")
    assert _sign_out(server, second).status == 204
    for copied in (first, second, third):
        assert server.request("/api/v1/status", **copied).status == 401
        assert _sign_in(server, {"renew": True}, **copied).status == 401
    assert server.request("/api/v1/status", **other).status == 200
    assert len(auth.sign_outs.sessions) == len(set(auth.sign_outs.sessions))


def test_signing_out_ends_sockets_tickets_and_codes(
    server: RunningServer, auth: AuthFixture
) -> None:
    cookie, own = _session(server, auth, "operator"), _own(server)
    code = server.request("/api/v1/code", "POST", b"{}", **JSON, **cookie, **own).json()
    ticket = server.request("/api/v1/ticket", "POST", b"{}", **JSON, **cookie, **own).json()
    with server.viewer("final_ui", additional_headers=cookie, origin=own["Origin"]) as viewer:
        viewer.next_frame()
        assert _sign_out(server, cookie).status == 204
        with pytest.raises(ConnectionClosed) as closed:
            viewer.next_frame("never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    assert _sign_in(server, code).status == 401
    uri = f"ws://127.0.0.1:{server.port}/api/v1/live?ticket={ticket['ticket']}"
    _no_socket(server, uri=uri)


def test_a_sign_out_that_cannot_be_published_is_503_and_ends_the_session_here(
    server: RunningServer, auth: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = _session(server, auth, "viewer")
    monkeypatch.setattr(auth.sign_outs, "why", "Kafka does not answer")
    response = _sign_out(server, cookie)
    assert response.status == 503
    assert "signed out on this server" in response.json()["detail"]
    assert "Max-Age=0" in response.headers["set-cookie"]
    assert server.request("/api/v1/status", **cookie).status == 401


def test_signing_out_with_a_token_ends_nothing(server: RunningServer, auth: AuthFixture) -> None:
    published = len(auth.sign_outs.sessions)
    assert server.request("/api/v1/session", "DELETE", **auth.bearer("viewer")).status == 204
    assert len(auth.sign_outs.sessions) == published
    assert server.request("/api/v1/status", **auth.bearer("viewer")).status == 200


def test_two_livejoins_on_one_host_use_different_cookies(
    server: RunningServer, auth: AuthFixture
) -> None:
    """A browser sends cookies to every port of a host."""
    other = AuthFixture()
    with run_server(access=other.access()) as second:
        jar = [_session(server, auth, "viewer"), _session(second, other, "operator")]
        both = {"Cookie": "; ".join(one["Cookie"] for one in jar)}
        assert len({one["Cookie"].partition("=")[0] for one in jar}) == 2
        assert server.request("/api/v1/whoami", **both).json()["role"] == "viewer"
        assert second.request("/api/v1/whoami", **both).json()["role"] == "operator"
        gone = _sign_out(second, both).headers["set-cookie"]
        assert gone.partition("=")[0] == jar[1]["Cookie"].partition("=")[0]
        assert server.request("/api/v1/whoami", **both).status == 200


def test_two_livejoins_behind_different_public_ports_use_different_cookies(
    auth: AuthFixture,
) -> None:
    """In containers both may listen on one port and be published on two."""
    headers = {"Host": "live.example.com:8443", "Origin": "https://live.example.com:8443"}
    with run_server(access=auth.access(hosts=["live.example.com:8443", "live.example.com"])) as one:
        known = _cookie(_sign_in(one, {"token": auth.texts["viewer"]}, **headers))
        assert known["Cookie"].startswith(f"livejoin_{one.port}_8443=")
        assert one.request("/api/v1/whoami", **known, **headers).status == 200
        assert one.request("/api/v1/whoami", **known).status == 401


def test_revoking_a_token_ends_its_sessions(server: RunningServer, auth: AuthFixture) -> None:
    auth.token("leaver", "viewer")
    cookie = _session(server, auth, "leaver")
    auth.revoke("leaver")
    response = server.request("/api/v1/status", **cookie)
    assert response.status == 401
    assert "revoked" in response.json()["detail"]


def test_a_session_can_be_renewed(server: RunningServer, auth: AuthFixture) -> None:
    cookie = _session(server, auth, "viewer")
    again = _sign_in(server, {"renew": True}, **cookie)
    assert again.status == 200
    assert _cookie(again) != cookie
    assert server.request("/api/v1/whoami", **_cookie(again)).json() == again.json()
    assert _sign_in(server, {"renew": True}).status == 401


@pytest.mark.parametrize("cookie", ["x", "a.b.c", "console.1.1.x", "...", "\xff", '"', "=;=;"])
def test_a_forged_session_is_refused(server: RunningServer, cookie: str) -> None:
    headers = {"Cookie": f"livejoin_{server.port}={cookie}"}
    assert server.request("/api/v1/status", **headers).status == 401


def test_a_modified_session_is_refused(server: RunningServer, auth: AuthFixture) -> None:
    name, _, session = _session(server, auth, "viewer")["Cookie"].partition("=")
    for at in range(len(session) - 1):  # some bits of the last character are padding
        other = "A" if session[at] != "A" else "B"
        forged = f"{session[:at]}{other}{session[at + 1 :]}"
        assert server.request("/api/v1/whoami", Cookie=f"{name}={forged}").status == 401


# --- codes and tickets


def test_a_code_signs_in_once(server: RunningServer, auth: AuthFixture) -> None:
    code = auth.identities.codes.issue(CONSOLE)
    first = _sign_in(server, {"code": code})
    assert first.json() == {"id": "console", "role": "operator", "label": ""}
    assert server.request("/api/v1/status", **_cookie(first)).status == 200
    assert _sign_in(server, {"code": code}).status == 401


def test_a_code_has_the_role_of_its_requester(server: RunningServer, auth: AuthFixture) -> None:
    made = server.request("/api/v1/code", "POST", b"{}", **JSON, **auth.bearer("viewer"))
    assert made.headers["cache-control"] == "no-store"
    response = _sign_in(server, {"code": made.json()["code"]})
    assert response.json()["role"] == "viewer"


def test_a_code_of_a_revoked_token_is_refused(server: RunningServer, auth: AuthFixture) -> None:
    auth.token("giver", "viewer")
    made = server.request("/api/v1/code", "POST", b"{}", **JSON, **auth.bearer("giver")).json()
    auth.revoke("giver")
    assert _sign_in(server, made).status == 401


def _ticket(server: RunningServer, auth: AuthFixture, name: str) -> str:
    response = server.request("/api/v1/ticket", "POST", b"", **auth.bearer(name))
    return f"ws://127.0.0.1:{server.port}/api/v1/live?ticket={response.json()['ticket']}"


def test_a_ticket_opens_one_socket(server: RunningServer, auth: AuthFixture) -> None:
    uri = _ticket(server, auth, "viewer")
    with server.viewer("final_ui", uri=uri, origin=OTHER) as viewer:
        assert viewer.next_frame().rows("final_ui")[0]["name"] == "Ada"
    _no_socket(server, uri=uri)


def test_a_ticket_is_valid_for_sockets_only(server: RunningServer, auth: AuthFixture) -> None:
    ticket = _ticket(server, auth, "operator").partition("?")[2]
    assert server.request(f"/api/v1/status?{ticket}").status == 401


def test_a_ticket_of_a_revoked_token_is_refused(server: RunningServer, auth: AuthFixture) -> None:
    auth.token("passer", "viewer")
    uri = _ticket(server, auth, "passer")
    auth.revoke("passer")
    _no_socket(server, uri=uri)


def test_one_time_secrets_expire() -> None:
    now = 0.0
    made = OneTimeSecrets(30, lambda: now)
    first, second = made.issue(CONSOLE), made.issue(CONSOLE)
    now = 29.9
    assert made.redeem(first) == CONSOLE
    assert made.redeem(first) is None
    now = 30.0
    assert made.redeem(second) is None


def test_the_number_of_one_time_secrets_is_bounded() -> None:
    made = OneTimeSecrets(30, lambda: 0.0)
    first = made.issue(CONSOLE)
    for _ in range(sessions_and_codes._MAX_ISSUED):
        made.issue(CONSOLE)
    assert len(made._issued) == sessions_and_codes._MAX_ISSUED
    assert made.redeem(first) is None


def _no_socket(server: RunningServer, **options: Any) -> None:
    with pytest.raises(InvalidStatus) as refused, server.viewer("final_ui", **options):
        pass
    assert refused.value.response.status_code in (401, 403)


# --- cross-site requests


def test_a_session_opens_a_socket_from_the_own_page_only(
    server: RunningServer, auth: AuthFixture
) -> None:
    cookie = _session(server, auth, "viewer")
    own = _own(server)["Origin"]
    with server.viewer("final_ui", additional_headers=cookie, origin=own) as viewer:
        viewer.next_frame()
    _no_socket(server, additional_headers=cookie)  # browsers always send Origin
    _no_socket(server, additional_headers=cookie, origin=OTHER)
    _no_socket(server, additional_headers=cookie, origin="https://evil.example")


POST = "/api/v1/preview", "POST", b'{"joinType": "no join"}'


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": OTHER}, 401),  # allowed, but without the cookie
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "content-type": "text/plain"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 422),  # authorized; the message is invalid
        ({"Sec-Fetch-Site": "same-origin"}, 422),
    ],
)
def test_a_session_may_post_from_the_own_page_only(
    server: RunningServer, auth: AuthFixture, headers: dict[str, str], status: int
) -> None:
    cookie = _session(server, auth, "operator")
    given = {name: text.format(port=server.port) for name, text in headers.items()}
    before = len(auth.audit.rows)
    response = server.request(*POST, **{**JSON, **cookie, **given})
    assert response.status == status
    assert len(auth.audit.rows) > before or auth.audit._repeats._counted


def test_a_page_of_another_site_starts_no_session(server: RunningServer, auth: AuthFixture) -> None:
    response = _sign_in(server, {"token": auth.texts["operator"]}, Origin=OTHER)
    assert response.status == 403
    assert "set-cookie" not in response.headers


def test_a_token_in_a_url_is_refused(server: RunningServer, auth: AuthFixture) -> None:
    token = auth.texts["operator"]
    for name in ("token", "access_token", "ticket", "code"):
        assert server.request(f"/api/v1/status?{name}={token}").status == 401
        uri = f"ws://127.0.0.1:{server.port}/api/v1/live?{name}={token}"
        _no_socket(server, uri=uri)


# --- session cookies and their key


def test_a_session_lasts_12_hours_and_survives_a_restart() -> None:
    now = 1000.0
    text = Sessions(b"key", lambda: now).start(Identity("abc", "viewer"))
    now += 12 * 3600 - 1
    found = Sessions(b"key", lambda: now).verify(text)
    assert (found.identity_id, found.expires_at) == ("abc", 1000 + 12 * 3600)
    now += 1
    with pytest.raises(Unauthenticated, match="ended"):
        Sessions(b"key", lambda: now).verify(text)
    with pytest.raises(Unauthenticated, match="unknown"):
        Sessions(b"other", lambda: now).verify(text)


def _renewed(sessions: Sessions, text: str, role: Role = "viewer") -> str:
    return sessions.renew(sessions.verify(text).to_identity(role))


@pytest.mark.parametrize(("whose", "days"), [("abc", 30), ("console", 1)])
def test_a_renewed_session_has_a_maximum_age(whose: str, days: int) -> None:
    now = 1000.0
    sessions = Sessions(b"key", lambda: now)
    text = sessions.start(Identity(whose, "viewer"))
    for _ in range(4 * days - 1):
        now += 6 * 3600
        text = _renewed(sessions, text)
    now = 1000 + days * 86400 - 1
    assert sessions.verify(text).expires_at == 1000 + days * 86400
    now += 1
    with pytest.raises(Unauthenticated, match="ended"):
        sessions.verify(text)


def test_a_session_started_from_a_session_expires_with_it() -> None:
    now = 1000.0
    sessions = Sessions(b"key", lambda: now)
    first = sessions.verify(sessions.start(CONSOLE))
    now += 20 * 3600
    second = sessions.verify(sessions.start(first.to_identity("operator")))
    assert second.session_id != first.session_id
    assert second.expires_at == 1000 + 86400


def test_revoking_the_console_ends_its_sessions_and_unused_codes() -> None:
    identities = authentication.Identities(TokenRegistry({}, ""), Sessions(b"key"))
    code, text = identities.console_code(), identities.sessions.start(CONSOLE)
    token = Identity("abc", "viewer")
    other = identities.sessions.start(token)
    one = identities.by_session(text)
    assert identities.still_valid(one)
    identities.sessions.ended.apply_record(*identity_record("console", time.time() + 1))
    assert not identities.still_valid(one)
    with pytest.raises(Unauthenticated, match="ended"):
        identities.by_session(text)
    unused = identities.codes.redeem(code)
    assert unused is not None
    assert not identities.still_valid(unused)
    assert identities.sessions.verify(other).identity_id == "abc"


def test_before_the_tokens_are_loaded_only_console_sessions_of_this_server_are_valid() -> None:
    """Without Kafka the console must still work; an older session may have been ended."""
    identities = authentication.Identities(TokenRegistry(), Sessions(b"key"))
    assert identities.by_session(identities.sessions.start(CONSOLE)).id == "console"
    older = identities.sessions.start(replace(CONSOLE, signed_in_at=time.time() - 60))
    with pytest.raises(Unauthenticated, match="not been loaded yet"):
        identities.by_session(older)


def test_an_ended_session_is_kept_until_it_would_have_expired() -> None:
    now = 1000.0
    sessions, read = Sessions(b"key", lambda: now), EndedSessions()
    read.apply_record(*session_record("gone", 999))
    read.apply_record(*session_record("ended", 2000))
    sessions.add_ended(read)
    assert list(sessions.ended.sessions) == ["ended"]


def test_a_session_of_an_older_format_has_ended() -> None:
    sessions = Sessions(b"key")
    body = f"abc.{int(time.time())}.0123456789abcdef"
    with pytest.raises(Unauthenticated, match="older livejoin"):
        sessions.verify(f"{body}.{sessions._signature(body)}")


def test_the_key_is_created_once_and_readable_by_this_user_only(tmp_path: Path) -> None:
    file = tmp_path / "state" / "session"
    made = sessions_and_codes.load_session_key(file)
    assert len(made) == 32
    assert sessions_and_codes.load_session_key(file) == made
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_key_that_cannot_be_stored_is_temporary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert len(sessions_and_codes.load_session_key(tmp_path / "file" / "session")) == 32
    (tmp_path / "short").write_bytes(b"x")
    assert len(sessions_and_codes.load_session_key(tmp_path / "short")) == 32
    said = re.findall("sessions will end with this process", capsys.readouterr().out)
    assert len(said) == 2
