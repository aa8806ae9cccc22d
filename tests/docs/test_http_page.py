"""`docs/http.md` matches the server: every path, every example, every filter."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from livejoin.core.spec import DEFAULT
from livejoin.tables.http import filters, peek_request, query, topic_browser
from livejoin.tables.http.routes import openapi_document
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.observe import health
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RunningServer, run_server
from tables.samples import SCHEMAS, chunk, final, live

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
COMMANDS = re.findall(r"^    (curl .*)$", PAGE, re.MULTILINE)
PEEK = PAGE.partition("### Messages of a topic")[2].partition("\n## ")[0]
LANGUAGE = PAGE.partition("## The filter language")[2].partition("\n## ")[0]
FILTERS = re.findall(r"^\| `([^|]+)` \|", LANGUAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(catalog, kafka=FakeKafka({"users_a": {0: [Message(0, 0)]}})) as running:
        yield running


def test_every_path_is_on_the_page_and_no_other() -> None:
    described = {
        f"{verb.upper()} {path}"
        for path, item in openapi_document(DEFAULT, DEFAULT)["paths"].items()
        for verb in item
    }
    assert set(re.findall(r"\| `((?:GET|POST|DELETE) [^`]+)` \|", PAGE)) == described


def _path_and_query(command: str) -> str:
    """Path and query that a command requests."""
    words = shlex.split(command.partition(" > ")[0])
    address = urlsplit(next(word for word in words if word.startswith("http://")))
    encoded = [words[at + 1] for at, word in enumerate(words) if word == "--data-urlencode"]
    more = [
        "=".join((name, quote(value))) for name, _, value in (e.partition("=") for e in encoded)
    ]
    return f"{address.path}?{'&'.join(filter(None, [address.query, *more]))}"


@pytest.mark.parametrize("command", [one for one in COMMANDS if "POST" not in one])
def test_an_example_succeeds(server: RunningServer, command: str) -> None:
    assert server.request(_path_and_query(command)).status == 200


def test_there_are_examples() -> None:
    assert len(COMMANDS) > 8
    assert len(FILTERS) > 8


@pytest.mark.parametrize("text", FILTERS)
def test_a_documented_filter_is_valid(text: str) -> None:
    filters.compile_filter(text, SCHEMAS["final_ui"])


def test_the_documented_error_is_returned(server: RunningServer) -> None:
    command, body = re.findall(r"^    \$ (curl .*)\n    (\{.*\})$", PAGE, re.MULTILINE)[0]
    assert server.request(_path_and_query(command)).body.decode() == body


def test_parameters_formats_and_limits_match_the_code() -> None:
    assert [parameter for parameter in query.PARAMETERS if f"\n| `{parameter}` |" not in PAGE] == []
    for name, form in FORMATS.items():
        assert f"\n| `{name}` | `{form.media_type}` |" in PAGE
    assert f"at most {filters.MAX_BYTES >> 10} KiB, {filters.MAX_COMPARISONS} comparisons" in PAGE
    assert f"and {filters.MAX_DEPTH} levels" in PAGE
    assert f"up to {topic_browser.MAX_TOPICS:,} topics" in PAGE
    assert [name for name in peek_request.PARAMETERS if f"\n| `{name}` |" not in PEEK] == []
    assert f"1 to {peek_request.MAX_MESSAGES} | {peek_request.DEFAULT_MESSAGES} |" in PEEK
    limits = topic_browser.LIMITS
    assert f"{limits.records:,} messages, {limits.size >> 20} MiB or {limits.seconds} s" in PEEK
    assert f"the most unread records, at most {health.MAX_PARTITIONS} |" in PAGE
