"""static/livejoin.js in Node.js, against a model of the server."""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.modelled import FINAL, STATUS, ServerModel
from livejoin.core import format_versions
from livejoin.tables.ingest import decode
from rig.running import until

NODE = shutil.which("node")
STATIC = Path(decode.__file__).parents[1] / "static"
DRIVER = Path(__file__).parent / "module" / "client.mjs"

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


class Page:
    """A client in Node.js, and the server at the other end of its socket."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.server = ServerModel()
        self.sent: list[dict[str, Any]] = []
        self.changes: list[list[Any]] = []
        self.seen: dict[str, Any] = {}

    def do(self, what: str, **more: Any) -> dict[str, Any]:
        """Run a command; subscriptions that it sends are answered."""
        for event in self.command(what, **more)["told"]:
            if "send" in event:
                self.sent.append(event["send"])
                self.give(self.server.answer(json.dumps(event["send"])))
        return self.seen

    def command(self, what: str, **more: Any) -> dict[str, Any]:
        """Run a command without answering."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
        self._process.stdin.flush()
        self.seen = json.loads(self._process.stdout.readline())
        self.changes += self.seen["changes"]
        return self.seen

    def give(self, data: bytes) -> None:
        self.do("message", data=base64.b64encode(data).decode())

    def connect(self, *tables: str) -> None:
        for table in tables:
            self.do("table", name=table)
        self.do("opened")

    def come_back(self) -> None:
        self.do("reopened", count=self.seen["sockets"] + 1)
        self.do("opened")

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(table, kind) for table, kind, *_ in self.changes]

    @property
    def held(self) -> dict[str, Any]:
        rows = self.do("look")["held"][FINAL]
        return {row["_id"]: row for row in rows}


@pytest.fixture(scope="module")
def node() -> Iterator["subprocess.Popen[bytes]"]:
    assert NODE is not None
    command = [NODE, str(DRIVER), str(STATIC / "livejoin.js"), "http://127.0.0.1:10000/behind"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.fixture
def page(node: "subprocess.Popen[bytes]") -> Page:
    return fresh(node)


def fresh(node: "subprocess.Popen[bytes]") -> Page:
    page = Page(node)
    page.do("fresh")
    return page


def test_with_a_token_each_socket_is_opened_with_a_ticket(node: "subprocess.Popen[bytes]") -> None:
    page = Page(node)
    tickets = [{"status": 200, "body": {"ticket": event}} for event in ("a b", "c")]
    busy = {"status": 503, "body": {"detail": "not yet"}}
    page.do("fresh", token="lj_secret", gets=[tickets[0], busy, tickets[1]])
    fetched, opened = page.do("table", name=FINAL)["told"]
    address = "127.0.0.1:10000/behind/api/v1"
    credentials = {"method": "POST", "authorization": "Bearer lj_secret"}
    assert fetched == {"fetch": f"http://{address}/ticket", **credentials}
    assert opened == {"open": f"ws://{address}/live?ticket=a%20b", "protocol": "livejoin.v1"}
    page.do("opened")
    page.do("lose")
    again = page.do("reopened", count=page.seen["sockets"] + 1)["told"]
    assert [event.get("open") for event in again] == [None, None, f"ws://{address}/live?ticket=c"]


@pytest.mark.parametrize("status", [401, 403])
def test_an_invalid_token_is_not_retried(node: "subprocess.Popen[bytes]", status: int) -> None:
    page = Page(node)
    refusal = {"status": status, "body": {"detail": "this token is not known"}}
    page.do("fresh", token="lj_secret", gets=[refusal])
    result = page.do("table", name=FINAL)
    assert [event for event in result["told"] if "open" in event] == []
    assert result["status"]["state"] == "refused"
    assert result["status"]["stale"] == "this token is not known"


ADDRESS = "http://127.0.0.1:10000/behind/api/v1"
OUTCOME = {"outcome": "accepted", "generation": 2, "reason": None, "partition": 0, "offset": 7}
VIEWER = {"id": "00c0ffee", "role": "viewer", "label": "wall"}


@pytest.mark.parametrize("token", [None, "lj_secret"])
def test_a_control_message_is_sent_as_the_session_or_the_token(
    node: "subprocess.Popen[bytes]", token: str | None
) -> None:
    page = Page(node)
    page.do("fresh", token=token)
    message = {"joinType": "inner", "expectedGeneration": 1}
    answers = [{"status": 200, "body": OUTCOME}]
    result = page.do("ask", method="control", message=message, gets=answers)
    sent = {"fetch": f"{ADDRESS}/control", "method": "POST", "message": message}
    assert result["told"] == [sent | ({"authorization": f"Bearer {token}"} if token else {})]
    assert result["asked"] == OUTCOME


def test_a_rejected_message_is_an_error_with_the_reason(page: Page) -> None:
    problem = {"title": "rejected", "detail": 'topic "x" does not exist'}
    for status, body, error in (
        (422, problem, 'Rejected: topic "x" does not exist'),
        (200, None, "The answer is not livejoin's."),
    ):
        answers = [{"status": status, "body": body}]
        page.do("ask", method="control", message={"usersTopic": "x"}, gets=answers)
        assert page.seen["asked"] == {"error": error}


def test_who_is_signed_in(page: Page) -> None:
    unauthorized = {"title": "unauthorized", "detail": "a token is required"}
    unread = {"title": "service unavailable", "detail": "retry shortly"}
    for status, body, user in (
        (200, VIEWER, VIEWER),
        (401, unauthorized, None),
        (503, unread, {"error": "Service unavailable: retry shortly"}),
    ):
        result = page.do("ask", method="whoami", gets=[{"status": status, "body": body}])
        assert result["told"] == [{"fetch": f"{ADDRESS}/whoami"}]
        assert result["asked"] == user


@pytest.fixture
def joined(page: Page) -> Page:
    page.server.put("a", "Ada")
    page.connect(STATUS, FINAL)
    page.changes.clear()
    return page


def test_tables_requested_in_one_go_share_a_subscription(page: Page) -> None:
    page.server.put("a", "Ada")
    events = page.do("table", name=STATUS)["told"]
    address = "ws://127.0.0.1:10000/behind/api/v1/live"
    assert events == [{"open": address, "protocol": "livejoin.v1"}]
    page.connect(FINAL)
    assert page.sent == [{"subscribe": [STATUS, FINAL]}]
    assert page.kinds == [(STATUS, "snapshot"), (FINAL, "snapshot")]
    assert page.held == page.server.rows[FINAL]
    assert page.seen["status"]["state"] == "following"


def test_changes_and_a_cutover_are_applied_and_reported(joined: Page) -> None:
    joined.give(joined.server.put("b", "Bob"))
    joined.give(joined.server.put("a", None))
    joined.give(joined.server.cut_over(["Cy"]))
    assert joined.changes == [
        [FINAL, "upsert", ["b"], 1, 2],
        [FINAL, "remove", ["a"], 1, 3],
        [FINAL, "cutover", ["0"], 2, 1],
    ]
    assert joined.held == joined.server.rows[FINAL]


@pytest.mark.parametrize("resumes", [True, False], ids=["resumes", "does not resume"])
def test_a_lost_socket_is_reopened_and_resumed(joined: Page, *, resumes: bool) -> None:
    joined.server.resumes = resumes
    joined.give(joined.server.heartbeat())
    assert joined.do("lose")["status"]["state"] == "reconnecting"
    joined.server.put("b", "Bob")
    joined.server.put("a", None)
    joined.come_back()
    assert joined.sent[-1]["resume"] == {"generation": 1, "seq": 1}
    assert joined.held == joined.server.rows[FINAL]
    changed = ["upsert", "remove"] if resumes else ["snapshot"]
    assert joined.kinds == [(STATUS, "snapshot"), *((FINAL, kind) for kind in changed)]


def test_adding_a_table_reloads_all_and_a_released_one_is_unsubscribed(
    page: Page,
) -> None:
    page.connect(STATUS)
    page.do("table", name=FINAL)
    assert page.sent[-1] == {"subscribe": [STATUS, FINAL]}
    assert page.held == page.server.rows[FINAL]
    page.do("drop", name=FINAL)
    assert page.sent[-1] == {"subscribe": [STATUS]}
    page.give(page.server.put("a", "on its way"))
    assert page.do("drop", name=STATUS)["told"] == [{"close": True}]


def test_a_wrong_row_count_is_repaired(joined: Page) -> None:
    joined.server.put("b", "lost on the way")
    joined.give(joined.server.heartbeat())
    assert joined.held == joined.server.rows[FINAL]
    assert joined.seen["status"]["mismatches"] == 1


def test_a_wrong_cell_is_repaired(joined: Page) -> None:
    """The row count is right and one cell is wrong: only the hash shows it."""
    joined.give(tampered(joined.server.put("b", "Bob"), b"Bob", b"Bop"))
    assert joined.held["b"]["name"] == "Bop"
    joined.give(joined.server.heartbeat())
    assert joined.held == joined.server.rows[FINAL]
    assert joined.seen["status"]["mismatches"] == 1
    joined.give(joined.server.heartbeat())
    assert joined.do("look")["status"]["mismatches"] == 1


def tampered(frame: bytes, before: bytes, after: bytes) -> bytes:
    assert frame.count(before) == 1
    return frame.replace(before, after)


def test_a_hash_that_never_matches_does_not_cause_a_stream_of_snapshots(joined: Page) -> None:
    requests = len(joined.sent)
    wrong = {FINAL: {"rows": 1, "hash": "0" * 16}}
    for _ in range(5):
        joined.give(joined.server.heartbeat(tables=wrong))
    assert joined.do("look")["status"]["mismatches"] == 5
    assert len(joined.sent) == requests + 1


@pytest.mark.parametrize("hours", [-48, 48])
def test_setting_the_wall_clock_does_not_change_the_back_off(joined: Page, hours: int) -> None:
    wrong = {FINAL: {"rows": 1, "hash": "0" * 16}}
    joined.give(joined.server.heartbeat(tables=wrong))
    requests = len(joined.sent)
    joined.do("set", ms=hours * 3_600_000)
    joined.give(joined.server.heartbeat(tables=wrong))
    assert 0 <= joined.do("look")["status"]["heartbeatAgeMs"] < 20_000
    assert len(joined.sent) == requests, "snapshots came less than a second ago"

    def requested() -> bool:
        joined.give(joined.server.heartbeat(tables=wrong))
        return len(joined.sent) > requests

    until(requested, "snapshots, a second after the last ones", 20)
    joined.do("set", ms=-hours * 3_600_000)
    assert 0 <= joined.do("look")["status"]["heartbeatAgeMs"] < 20_000


def test_rows_are_kept_while_a_restarted_server_is_empty(joined: Page) -> None:
    before = joined.held
    joined.give(joined.server.forget())
    assert joined.held == before
    joined.do("lose")
    joined.come_back()
    joined.give(joined.server.heartbeat())
    assert joined.held == before
    joined.give(joined.server.cut_over(["Cy"]))
    assert joined.held == joined.server.rows[FINAL]
    assert joined.kinds[-1] == (FINAL, "cutover")


def test_changes_missed_while_nothing_was_live_arrive_afterwards(joined: Page) -> None:
    joined.do("lose")
    joined.server.forget()
    joined.come_back()
    assert list(joined.held) == ["a"]
    joined.give(joined.server.go_live(("b", "Bob"), ("a", None)))
    assert joined.held == joined.server.rows[FINAL]
    assert len(joined.sent) == 2  # one subscription per socket


def test_the_total_of_a_limited_table_is_reported(page: Page) -> None:
    page.server.total = 1_000_000
    page.connect(FINAL)
    assert page.seen["status"]["total"] == 1_000_000
    page.server.total = None
    page.give(page.server.heartbeat())
    assert page.do("look")["status"]["total"] == 0


def test_a_table_released_and_requested_again_at_once_is_loaded_again(joined: Page) -> None:
    joined.do("replace", name=FINAL)
    assert joined.sent[-1] == {"subscribe": [STATUS, FINAL]}
    assert joined.held == joined.server.rows[FINAL]


def test_every_wait_has_the_limit_of_the_python_client(page: Page) -> None:
    assert page.command("table", name=FINAL)["waits"] == [5_000], "to connect"
    opened = page.command("opened")
    assert opened["waits"] == [30_000], "for the first frame"
    page.give(page.server.answer(json.dumps(opened["told"][0]["send"])))
    assert page.seen["waits"] == [5_000], "for the next message"


def test_an_error_frame_is_final(joined: Page) -> None:
    joined.give(joined.server.frame("error", [], message="there is no table 'x'"))
    status = joined.do("lose")["status"]
    assert (status["state"], status["stale"]) == ("refused", "there is no table 'x'")


@pytest.mark.parametrize("found", [format_versions.LIVE + 1, 0, "1"])
def test_an_unsupported_format_is_reported_and_final(joined: Page, found: int | str) -> None:
    """Nothing else in the frame can be relied on: here it has no parts."""
    header = json.dumps({"format": found, "type": "data", "rest": {}}).encode()
    before = joined.held
    joined.give(len(header).to_bytes(4) + header)
    assert joined.seen["told"] == [{"close": True}]
    status = joined.seen["status"]
    assert (status["state"], joined.seen["timers"]) == ("refused", 0), "it does not retry"
    assert (
        f"a frame has format {found}, this page knows up to {format_versions.LIVE}"
        in status["stale"]
    )
    assert joined.held == before


def test_a_frame_without_a_format_has_format_1(joined: Page) -> None:
    named = f'"format":{format_versions.LIVE},'.encode()
    before = joined.server.heartbeat()
    header = before[4:].replace(named, b"", 1)
    joined.give((len(before) - 4 - len(named)).to_bytes(4) + header)
    assert joined.do("look")["status"]["state"] == "following"


def test_an_unreadable_frame_drops_the_socket_but_not_the_rows(joined: Page) -> None:
    joined.give(b"rubbish")
    status = joined.seen["status"]
    assert status["state"] == "reconnecting"
    assert "cannot be read" in status["stale"]
    joined.come_back()
    assert "resume" not in joined.sent[-1]
    assert joined.held == joined.server.rows[FINAL]


def test_a_listener_that_throws_is_reported_and_stops_nothing(page: Page) -> None:
    page.do("table", name=FINAL, throws="theirs")
    page.connect(STATUS)
    assert page.seen["failures"] == ["theirs"]
    page.give(page.server.put("a", "Ada"))
    assert page.held == page.server.rows[FINAL]
    assert page.seen["failures"] == ["theirs", "theirs"]


def test_closing_closes_the_socket(joined: Page) -> None:
    seen = joined.do("quit")
    assert seen["told"] == [{"close": True}]
    assert seen["status"]["state"] == "closed"


def test_the_published_types_list_every_status_field(joined: Page) -> None:
    types = (STATIC / "livejoin.d.ts").read_text()
    interface = re.search(r"interface Status \{(.*?)\n\}", types, re.DOTALL)
    assert interface is not None
    named = re.findall(r"^  (\w+): ", interface[1], re.MULTILINE)
    assert sorted(named) == sorted(joined.do("look")["status"])


IDS, NAMES = st.sampled_from("abcdef"), st.text("xyé", max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), IDS, st.none() | NAMES),
        st.tuples(st.just("cut over"), st.lists(NAMES, max_size=4)),
        st.tuples(st.just("beat")),
    ),
    max_size=15,
)


@given(STEPS)
def test_any_sequence_of_frames_gives_the_rows_of_the_server(
    node: "subprocess.Popen[bytes]", steps: list[tuple[Any, ...]]
) -> None:
    page = fresh(node)
    page.connect(FINAL)
    for name, *rest in steps:
        server = page.server
        acts: dict[str, Callable[..., bytes]] = {
            "put": server.put,
            "cut over": server.cut_over,
            "beat": server.heartbeat,
        }
        page.give(acts[name](*rest))
    assert page.held == page.server.rows[FINAL]
    assert page.seen["status"]["mismatches"] == 0
