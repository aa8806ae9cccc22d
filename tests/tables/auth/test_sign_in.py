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

from livejoin.core.ended_sessions import EndedSessions, identity_record, session_record
from livejoin.core.tokens import Role
from livejoin.tables.auth import identity
from livejoin.tables.auth.identity import (
    CONSOLE,
    Identity,
    OneTimeSecrets,
    Sessions,
    TokenRegistry,
    Unauthenticated,
)
from livejoin.tables.ingest.catalog import Catalog
from tables.auth_fixture import AuthFixture
from tables.live_server import HttpResponse, RunningServer, run_server
from tables.samples import chunk, final, live

JSON = {"content-type": "application/json"}
OTHER = "https://app.example.com"


@pytest.fixture(scope="module")
def door() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def serving(door: AuthFixture) -> Iterator[RunningServer]:
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(host, access=door.access(origins=[OTHER], hosts=["live.example.com"])) as one:
        yield one


def _own(serving: RunningServer) -> dict[str, str]:
    return {"Origin": f"http://127.0.0.1:{serving.port}"}


def _sign_in(serving: RunningServer, given: Any, **headers: str) -> HttpResponse:
    body = json.dumps(given).encode()
    return serving.request("/api/v1/session", "POST", body, **{**JSON, **_own(serving), **headers})


def _cookie(answer: HttpResponse) -> dict[str, str]:
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def _session(serving: RunningServer, door: AuthFixture, name: str) -> dict[str, str]:
    answer = _sign_in(serving, {"token": door.texts[name]})
    assert answer.status == 200
    return _cookie(answer)


# --- signing in and out


def test_a_token_starts_a_session_with_an_http_only_cookie(
    serving: RunningServer, door: AuthFixture
) -> None:
    answer = _sign_in(serving, {"token": f" {door.texts['viewer']}\n"})
    assert answer.status == 200
    assert answer.json()["role"] == "viewer"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"livejoin_{serving.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert door.texts["viewer"] not in cookie
    who = serving.request("/api/v1/whoami", **_cookie(answer))
    assert who.json() == {**answer.json(), "label": "viewer"}
    assert who.headers["cache-control"] == "no-store"


def test_behind_a_proxy_with_tls_the_cookie_is_secure(
    serving: RunningServer, door: AuthFixture
) -> None:
    headers = {"Host": "live.example.com", "Origin": "https://live.example.com"}
    answer = _sign_in(serving, {"token": door.texts["viewer"]}, **headers)
    assert answer.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("kind", ["wrong", "expired", "revoked"])
def test_an_invalid_token_starts_no_session(
    serving: RunningServer, door: AuthFixture, kind: str
) -> None:
    answer = _sign_in(serving, {"token": door.texts[kind]})
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "refused: 401" in {row["outcome"] for row in door.audit.rows}


@pytest.mark.parametrize(
    "given", [{}, [], {"token": 5}, {"code": None}, {"renew": False}, "x", {"token": ["lj_"]}]
)
def test_an_invalid_body_starts_no_session(serving: RunningServer, given: Any) -> None:
    answer = _sign_in(serving, given)
    assert answer.status == 400
    assert "expected" in answer.json()["detail"]


def test_a_large_or_non_json_body_starts_no_session(serving: RunningServer) -> None:
    assert _sign_in(serving, {"token": "x" * 5000}).status == 413
    assert _sign_in(serving, {}, **{"content-type": "text/plain"}).status == 415
    assert serving.request("/api/v1/session", "POST", b"{", **JSON).status == 400


def test_signing_out_ends_the_session(serving: RunningServer, door: AuthFixture) -> None:
    cookie = _session(serving, door, "viewer")
    assert serving.request("/api/v1/status", **cookie).status == 200
    gone = serving.request("/api/v1/session", "DELETE", **cookie, **_own(serving))
    assert gone.status == 204
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert serving.request("/api/v1/status", **cookie).status == 401
    assert {"sign in", "sign out"} <= {row["action"] for row in door.audit.rows}


def _sign_out(serving: RunningServer, cookie: dict[str, str]) -> HttpResponse:
    return serving.request("/api/v1/session", "DELETE", **cookie, **_own(serving))


def test_signing_out_ends_all_renewals_of_a_session(
    serving: RunningServer, door: AuthFixture
) -> None:
    first = _session(serving, door, "viewer")
    second = _cookie(_sign_in(serving, {"renew": True}, **first))
    third = _cookie(_sign_in(serving, {"renew": True}, **second))
    other = _session(serving, door, "viewer")
    assert _sign_out(serving, second).status == 204
    for copied in (first, second, third):
        assert serving.request("/api/v1/status", **copied).status == 401
        assert _sign_in(serving, {"renew": True}, **copied).status == 401
    assert serving.request("/api/v1/status", **other).status == 200
    assert len(door.sign_outs.sessions) == len(set(door.sign_outs.sessions))


def test_signing_out_ends_sockets_tickets_and_codes(
    serving: RunningServer, door: AuthFixture
) -> None:
    cookie, own = _session(serving, door, "operator"), _own(serving)
    code = serving.request("/api/v1/code", "POST", b"{}", **JSON, **cookie, **own).json()
    ticket = serving.request("/api/v1/ticket", "POST", b"{}", **JSON, **cookie, **own).json()
    with serving.viewer("final_ui", additional_headers=cookie, origin=own["Origin"]) as viewer:
        viewer.next_frame()
        assert _sign_out(serving, cookie).status == 204
        with pytest.raises(ConnectionClosed) as closed:
            viewer.next_frame("never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    assert _sign_in(serving, code).status == 401
    uri = f"ws://127.0.0.1:{serving.port}/api/v1/live?ticket={ticket['ticket']}"
    _no_socket(serving, uri=uri)


def test_a_sign_out_that_cannot_be_published_is_503_and_ends_the_session_here(
    serving: RunningServer, door: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cookie = _session(serving, door, "viewer")
    monkeypatch.setattr(door.sign_outs, "why", "Kafka does not answer")
    answer = _sign_out(serving, cookie)
    assert answer.status == 503
    assert "signed out on this server" in answer.json()["detail"]
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert serving.request("/api/v1/status", **cookie).status == 401


def test_signing_out_with_a_token_ends_nothing(serving: RunningServer, door: AuthFixture) -> None:
    told = len(door.sign_outs.sessions)
    assert serving.request("/api/v1/session", "DELETE", **door.bearer("viewer")).status == 204
    assert len(door.sign_outs.sessions) == told
    assert serving.request("/api/v1/status", **door.bearer("viewer")).status == 200


def test_two_livejoins_on_one_host_use_different_cookies(
    serving: RunningServer, door: AuthFixture
) -> None:
    """A browser sends cookies to every port of a host."""
    other = AuthFixture()
    with run_server(access=other.access()) as second:
        jar = [_session(serving, door, "viewer"), _session(second, other, "operator")]
        both = {"Cookie": "; ".join(one["Cookie"] for one in jar)}
        assert len({one["Cookie"].partition("=")[0] for one in jar}) == 2
        assert serving.request("/api/v1/whoami", **both).json()["role"] == "viewer"
        assert second.request("/api/v1/whoami", **both).json()["role"] == "operator"
        gone = _sign_out(second, both).headers["set-cookie"]
        assert gone.partition("=")[0] == jar[1]["Cookie"].partition("=")[0]
        assert serving.request("/api/v1/whoami", **both).status == 200


def test_two_livejoins_behind_different_public_ports_use_different_cookies(
    door: AuthFixture,
) -> None:
    """In containers both may listen on one port and be published on two."""
    headers = {"Host": "live.example.com:8443", "Origin": "https://live.example.com:8443"}
    with run_server(access=door.access(hosts=["live.example.com:8443", "live.example.com"])) as one:
        known = _cookie(_sign_in(one, {"token": door.texts["viewer"]}, **headers))
        assert known["Cookie"].startswith(f"livejoin_{one.port}_8443=")
        assert one.request("/api/v1/whoami", **known, **headers).status == 200
        assert one.request("/api/v1/whoami", **known).status == 401


def test_revoking_a_token_ends_its_sessions(serving: RunningServer, door: AuthFixture) -> None:
    door.token("leaver", "viewer")
    cookie = _session(serving, door, "leaver")
    door.revoke("leaver")
    answer = serving.request("/api/v1/status", **cookie)
    assert answer.status == 401
    assert "revoked" in answer.json()["detail"]


def test_a_session_can_be_renewed(serving: RunningServer, door: AuthFixture) -> None:
    cookie = _session(serving, door, "viewer")
    again = _sign_in(serving, {"renew": True}, **cookie)
    assert again.status == 200
    assert _cookie(again) != cookie
    assert serving.request("/api/v1/whoami", **_cookie(again)).json() == again.json()
    assert _sign_in(serving, {"renew": True}).status == 401


@pytest.mark.parametrize("cookie", ["x", "a.b.c", "console.1.1.x", "...", "\xff", '"', "=;=;"])
def test_a_forged_session_is_refused(serving: RunningServer, cookie: str) -> None:
    headers = {"Cookie": f"livejoin_{serving.port}={cookie}"}
    assert serving.request("/api/v1/status", **headers).status == 401


def test_a_modified_session_is_refused(serving: RunningServer, door: AuthFixture) -> None:
    name, _, session = _session(serving, door, "viewer")["Cookie"].partition("=")
    for at in range(len(session) - 1):  # some bits of the last character are padding
        other = "A" if session[at] != "A" else "B"
        forged = f"{session[:at]}{other}{session[at + 1 :]}"
        assert serving.request("/api/v1/whoami", Cookie=f"{name}={forged}").status == 401


# --- codes and tickets


def test_a_code_signs_in_once(serving: RunningServer, door: AuthFixture) -> None:
    code = door.identities.codes.issue(CONSOLE)
    first = _sign_in(serving, {"code": code})
    assert first.json() == {"id": "console", "role": "operator", "label": ""}
    assert serving.request("/api/v1/status", **_cookie(first)).status == 200
    assert _sign_in(serving, {"code": code}).status == 401


def test_a_code_has_the_role_of_its_requester(serving: RunningServer, door: AuthFixture) -> None:
    made = serving.request("/api/v1/code", "POST", b"{}", **JSON, **door.bearer("viewer"))
    assert made.headers["cache-control"] == "no-store"
    answer = _sign_in(serving, {"code": made.json()["code"]})
    assert answer.json()["role"] == "viewer"


def test_a_code_of_a_revoked_token_is_refused(serving: RunningServer, door: AuthFixture) -> None:
    door.token("giver", "viewer")
    made = serving.request("/api/v1/code", "POST", b"{}", **JSON, **door.bearer("giver")).json()
    door.revoke("giver")
    assert _sign_in(serving, made).status == 401


def _ticket(serving: RunningServer, door: AuthFixture, name: str) -> str:
    answer = serving.request("/api/v1/ticket", "POST", b"", **door.bearer(name))
    return f"ws://127.0.0.1:{serving.port}/api/v1/live?ticket={answer.json()['ticket']}"


def test_a_ticket_opens_one_socket(serving: RunningServer, door: AuthFixture) -> None:
    uri = _ticket(serving, door, "viewer")
    with serving.viewer("final_ui", uri=uri, origin=OTHER) as viewer:
        assert viewer.next_frame().rows("final_ui")[0]["name"] == "Ada"
    _no_socket(serving, uri=uri)


def test_a_ticket_is_valid_for_sockets_only(serving: RunningServer, door: AuthFixture) -> None:
    ticket = _ticket(serving, door, "operator").partition("?")[2]
    assert serving.request(f"/api/v1/status?{ticket}").status == 401


def test_a_ticket_of_a_revoked_token_is_refused(serving: RunningServer, door: AuthFixture) -> None:
    door.token("passer", "viewer")
    uri = _ticket(serving, door, "passer")
    door.revoke("passer")
    _no_socket(serving, uri=uri)


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
    for _ in range(identity._MAX_ISSUED):
        made.issue(CONSOLE)
    assert len(made._issued) == identity._MAX_ISSUED
    assert made.redeem(first) is None


def _no_socket(serving: RunningServer, **options: Any) -> None:
    with pytest.raises(InvalidStatus) as refused, serving.viewer("final_ui", **options):
        pass
    assert refused.value.response.status_code in (401, 403)


# --- cross-site requests


def test_a_session_opens_a_socket_from_the_own_page_only(
    serving: RunningServer, door: AuthFixture
) -> None:
    cookie = _session(serving, door, "viewer")
    own = _own(serving)["Origin"]
    with serving.viewer("final_ui", additional_headers=cookie, origin=own) as viewer:
        viewer.next_frame()
    _no_socket(serving, additional_headers=cookie)  # browsers always send Origin
    _no_socket(serving, additional_headers=cookie, origin=OTHER)
    _no_socket(serving, additional_headers=cookie, origin="https://evil.example")


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
    serving: RunningServer, door: AuthFixture, headers: dict[str, str], status: int
) -> None:
    cookie = _session(serving, door, "operator")
    given = {name: text.format(port=serving.port) for name, text in headers.items()}
    before = len(door.audit.rows)
    answer = serving.request(*POST, **{**JSON, **cookie, **given})
    assert answer.status == status
    assert len(door.audit.rows) > before or door.audit._repeats._counted


def test_a_page_of_another_site_starts_no_session(
    serving: RunningServer, door: AuthFixture
) -> None:
    answer = _sign_in(serving, {"token": door.texts["operator"]}, Origin=OTHER)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_a_token_in_a_url_is_refused(serving: RunningServer, door: AuthFixture) -> None:
    token = door.texts["operator"]
    for name in ("token", "access_token", "ticket", "code"):
        assert serving.request(f"/api/v1/status?{name}={token}").status == 401
        uri = f"ws://127.0.0.1:{serving.port}/api/v1/live?{name}={token}"
        _no_socket(serving, uri=uri)


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
    all_ways = identity.Identities(TokenRegistry({}, ""), Sessions(b"key"))
    code, text = all_ways.console_code(), all_ways.sessions.start(CONSOLE)
    token = Identity("abc", "viewer")
    other = all_ways.sessions.start(token)
    one = all_ways.by_session(text)
    assert all_ways.still_valid(one)
    all_ways.sessions.ended.apply_record(*identity_record("console", time.time() + 1))
    assert not all_ways.still_valid(one)
    with pytest.raises(Unauthenticated, match="ended"):
        all_ways.by_session(text)
    unused = all_ways.codes.redeem(code)
    assert unused is not None
    assert not all_ways.still_valid(unused)
    assert all_ways.sessions.verify(other).identity_id == "abc"


def test_before_the_tokens_are_loaded_only_console_sessions_of_this_server_are_valid() -> None:
    """Without Kafka the console must still work; an older session may have been ended."""
    all_ways = identity.Identities(TokenRegistry(), Sessions(b"key"))
    assert all_ways.by_session(all_ways.sessions.start(CONSOLE)).id == "console"
    older = all_ways.sessions.start(replace(CONSOLE, signed_in_at=time.time() - 60))
    with pytest.raises(Unauthenticated, match="not been loaded yet"):
        all_ways.by_session(older)


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
    made = identity.load_session_key(file)
    assert len(made) == 32
    assert identity.load_session_key(file) == made
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_key_that_cannot_be_stored_is_temporary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert len(identity.load_session_key(tmp_path / "file" / "session")) == 32
    (tmp_path / "short").write_bytes(b"x")
    assert len(identity.load_session_key(tmp_path / "short")) == 32
    said = re.findall("sessions will end with this process", capsys.readouterr().out)
    assert len(said) == 2
