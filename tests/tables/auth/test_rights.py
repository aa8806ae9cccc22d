"""D1: every route refuses callers without the role that it requires."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livejoin.core import spec
from livejoin.core.state import Limits
from livejoin.core.tokens import role_includes
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.tables.auth import access_topics
from livejoin.tables.auth.authorization import Rights
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.http.routes import ROUTES, ApiRoute
from livejoin.tables.ingest.catalog import Catalog
from tables.auth_fixture import AuthFixture
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RULES, HttpResponse, RunningServer, Viewer, application, run_server
from tables.samples import chunk, final, live, user

pytestmark = pytest.mark.usefixtures("short_waits")
KAFKA = FakeKafka({"users": {0: [Message(0, 0, b'{"userId": "canary-of-a-topic"}', 5)]}})
INVALID_CREDENTIALS = ("none", "malformed", "empty", "basic", "wrong", "expired", "revoked")
SECRETS = (b"canary", b"livejoin_", b"final_ui", b"Ada")


def _application_routes() -> list[tuple[str, str]]:
    """Return every method and path of the application."""
    nowhere = Kafka({"bootstrap.servers": "nowhere"})
    producer = ControlProducer(
        Clusters.single(nowhere), RULES, Limits(), Catalog(), RequestSigner(nowhere, RULES.names)
    )
    found: list[tuple[str, str]] = []
    for route in application(Catalog(), producer).routes:
        match route:
            case WebSocketRoute():
                found.append(("SOCKET", route.path))
            case Route():
                found += [(method, route.path) for method in sorted(route.methods or ())]
            case Mount():
                found.append(("GET", route.path))
            case _:
                raise AssertionError(f"unknown kind of route: {route}")
    return found


RIGHTS = Rights(ROUTES)
HTTP = [(method, path) for method, path in _application_routes() if method != "SOCKET"]
GUARDED = [
    (m, p) for m, p in HTTP if RIGHTS.required_role(m, p.replace("{name}", "users")) != "public"
]


@pytest.fixture(scope="module")
def auth() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def server(auth: AuthFixture) -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(3))
    catalog.apply(chunk(3, 5, user(0, name="canary"), final(0, "canary")))
    catalog.set_status({"state": "live", "generation": 3, "message": "canary"})
    with run_server(catalog, kafka=KAFKA, access=auth.access()) as server:
        yield server


def _headers(auth: AuthFixture, kind: str) -> dict[str, str]:
    match kind:
        case "none":
            return {}
        case "malformed":
            return {"Authorization": "lj_token"}
        case "empty":
            return {"Authorization": "Bearer "}
        case "basic":
            return {"Authorization": "Basic b3BlcmF0b3I6b3BlcmF0b3I="}
        case _:
            return auth.bearer(kind)


def _request(server: RunningServer, method: str, path: str, **headers: str) -> HttpResponse:
    url = path.replace("{name}", "users" if "topics" in path else "final_ui")
    if path in ("/static", "/engine"):
        url = {"/static": "/static/page.js", "/engine": "/engine/perspective-anywidget.css"}[path]
    body = b"{}" if method == "POST" else None
    return server.request(url, method, body, **{"content-type": "application/json", **headers})


# --- the roles of routes


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_request_requires_the_role_of_its_route(route: ApiRoute) -> None:
    path = route.path.replace("{name}", "users")
    with_query = route.role_with_query or route.role
    for method in ("GET", "HEAD") if route.method == "GET" else (route.method,):
        assert RIGHTS.required_role(method, path) == route.role
        assert RIGHTS.required_role(method, path, b"x") == with_query
    below = RIGHTS.required_role(route.method, f"{path}/x/y")
    assert below == (route.role if route.folder else "operator")


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    listed = sorted((method, path) for method, path in _application_routes() if method != "HEAD")
    assert listed == sorted((route.method, route.path) for route in ROUTES)
    assert len(set(listed)) == len(listed)


def test_an_unlisted_request_requires_operator() -> None:
    assert RIGHTS.required_role("GET", "/api/v1/new") == "operator"
    assert RIGHTS.required_role("DELETE", "/api/v1/control") == "operator"
    assert RIGHTS.required_role("GET", "/staticx") == "operator"
    assert RIGHTS.required_role("POST", "/static/page.js") == "operator"


@pytest.mark.parametrize("kind", INVALID_CREDENTIALS)
@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_invalid_credentials_get_401_and_no_data(
    server: RunningServer, auth: AuthFixture, method: str, path: str, kind: str
) -> None:
    response = _request(server, method, path, **_headers(auth, kind))
    assert response.status == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["content-type"] == "application/problem+json"
    assert not [secret for secret in SECRETS if secret in response.body]


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.parametrize(("method", "path"), HTTP)
def test_a_role_gets_its_routes_and_403_for_others(
    server: RunningServer, auth: AuthFixture, method: str, path: str, role: Any
) -> None:
    need = RIGHTS.required_role(method, path.replace("{name}", "users"))
    response = _request(server, method, path, **auth.bearer(role))
    if need == "public" or role_includes(role, need):
        assert response.status not in (401, 403)
        assert response.status < 500 or path in ("/api/v1/control", "/api/v1/rollback")  # no Kafka
    else:
        assert response.status == 403
        assert response.headers["content-type"] == "application/problem+json"
        assert not [secret for secret in SECRETS if secret in response.body]
        assert f"role {need} is required" in response.body.decode() or method == "HEAD"


@pytest.mark.parametrize("path", ["/", "/example", "/livez", "/readyz", "/static/page.js"])
def test_public_routes_need_no_token(server: RunningServer, path: str) -> None:
    assert server.request(path).status == 200


def test_the_readiness_checks_require_viewer(server: RunningServer, auth: AuthFixture) -> None:
    for path in (
        "/readyz?verbose",
        "/readyz?%76erbose",
        "/readyz%0A?verbose",
        "/readyz?a&verbose",
    ):
        assert server.request(path).status == 401
    assert server.request("/readyz?verbose", **auth.bearer("viewer")).status == 200


@pytest.mark.parametrize("path", ["/nope", "/api/v1/nope", "/api/v2/tables", "/static/../x"])
def test_without_a_token_unknown_paths_reveal_nothing(server: RunningServer, path: str) -> None:
    assert server.request(path).status in (401, 404)


# --- restricted tables


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "ndjson"])
def test_the_audit_requires_operator(server: RunningServer, auth: AuthFixture, form: str) -> None:
    path = f"/api/v1/tables/audit?format={form}"
    assert server.request(path, **auth.bearer("viewer")).status == 403
    assert server.request(path, **auth.bearer("operator")).status == 200


def test_the_audit_is_not_listed_for_viewers(server: RunningServer, auth: AuthFixture) -> None:
    def listed(role: str) -> list[str]:
        found = server.request("/api/v1/tables", **auth.bearer(role)).json()["tables"]
        return [one["name"] for one in found]

    assert listed("viewer") == list(spec.DEFAULT.tables)
    assert listed("operator") == list(spec.DEFAULT.all_tables)


def test_the_audit_requires_operator_over_the_socket_too(
    server: RunningServer, auth: AuthFixture
) -> None:
    operator, viewer = auth.bearer("operator"), auth.bearer("viewer")
    with server.viewer("audit", additional_headers=operator) as one:
        assert one.next_frame().kinds == [("audit", "snapshot")]
        assert "audit" in one.next_frame("heartbeat").header["tables"]
        with server.viewer("final_ui", additional_headers=viewer) as other:
            assert "audit" not in other.next_frame("heartbeat").header["tables"]
            other.subscribe("final_ui", "audit")
            assert "no table 'audit'" in other.next_frame("error").header["message"]


# --- the socket


@pytest.mark.parametrize("kind", INVALID_CREDENTIALS)
def test_invalid_credentials_get_no_socket(
    server: RunningServer, auth: AuthFixture, kind: str
) -> None:
    headers = _headers(auth, kind)
    with (
        pytest.raises(InvalidStatus) as refused,
        server.viewer("final_ui", additional_headers=headers),
    ):
        pass
    response = refused.value.response
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert b"final_ui" not in (response.body or b"")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_both_roles_get_a_socket(server: RunningServer, auth: AuthFixture, role: str) -> None:
    with server.viewer("final_ui", additional_headers=auth.bearer(role)) as viewer:
        assert viewer.next_frame().rows("final_ui")[0]["name"] == "canary"


def _end(viewer: Viewer) -> tuple[int, str]:
    """Return code and reason of the close frame."""
    try:
        while True:
            viewer.next_frame()
    except ConnectionClosed as closed:
        return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (0, "cut off")


@pytest.mark.parametrize("subscribed", [True, False])
def test_a_socket_ends_when_its_token_is_revoked(
    server: RunningServer,
    auth: AuthFixture,
    subscribed: bool,  # noqa: FBT001
) -> None:
    auth.token("short", "viewer")
    headers = auth.bearer("short")
    tables = ("final_ui",) if subscribed else ()
    with (
        server.viewer(*tables, additional_headers=headers) as gone,
        server.viewer("final_ui", additional_headers=auth.bearer("viewer")) as stays,
    ):
        if subscribed:
            gone.next_frame()
        auth.revoke("short")
        began = time.monotonic()
        assert _end(gone) == (
            4401,
            "Unauthorized: this token or session has ended.",
        )
        assert time.monotonic() - began < 5
        stays.next_frame("heartbeat")


def test_a_socket_ends_when_its_token_expires(server: RunningServer, auth: AuthFixture) -> None:
    auth.token("brief", "viewer", lifetime_s=2)
    with server.viewer("final_ui", additional_headers=auth.bearer("brief")) as viewer:
        assert _end(viewer)[0] == 4401


def test_a_revoked_viewer_that_reads_nothing_is_disconnected(auth: AuthFixture) -> None:
    """The close frame would wait behind unread rows."""
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2000, *(user(n, name="x" * 5000) for n in range(2000))))
    auth.token("stalled", "viewer")
    with ExitStack() as stack:
        server = stack.enter_context(run_server(catalog, send_buffer=4096, access=auth.access()))
        headers = auth.bearer("stalled")
        viewer = stack.enter_context(
            server.viewer(additional_headers=headers, max_queue=1, close_timeout=1)
        )
        viewer.subscribe("users_ui")
        watching = stack.enter_context(
            server.viewer("orchestrator_status", additional_headers=auth.bearer("viewer"))
        )
        watching.next_frame()
        assert server.request("/api/v1/status", **auth.bearer("viewer")).json()["viewers"] == 2
        auth.revoke("stalled")
        until = time.monotonic() + 5
        while server.request("/api/v1/status", **auth.bearer("viewer")).json()["viewers"] > 1:
            assert time.monotonic() < until, "it is still connected"
            time.sleep(0.05)


# --- before the tokens are loaded


def test_before_the_tokens_are_loaded_requests_get_503_with_retry_after(
    auth: AuthFixture,
) -> None:
    known, auth.identities.tokens.by_id = auth.identities.tokens.by_id, None
    auth.identities.tokens.unavailable_reason = "there is no topic"
    try:
        with run_server(access=auth.access()) as server:
            response = server.request("/api/v1/status", **auth.bearer("operator"))
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert "there is no topic" in response.json()["detail"]
            assert server.request("/api/v1/status").status == 401
            assert server.request("/livez").status == 200
    finally:
        auth.identities.tokens.by_id = known


def test_a_token_of_a_newer_format_is_refused_with_its_format_and_others_are_valid() -> None:
    auth = AuthFixture()
    known = dict(auth.identities.tokens.by_id or {})
    access_topics.apply_token_record(
        known, b"00c0ffee", b'{"format": 2, "secret": {"kind": "key"}}'
    )
    auth.identities.tokens.by_id = known
    auth.texts["newer"] = "lj_00c0ffee_x"
    with run_server(access=auth.access()) as server:
        newer = server.request("/api/v1/status", **auth.bearer("newer"))
        assert newer.status == 401
        assert "it has format 2, this livejoin knows up to 1" in newer.json()["detail"]
        assert server.request("/api/v1/status", **auth.bearer("viewer")).status == 200
