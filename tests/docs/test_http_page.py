"""`docs/http.md` says what the server does: every path, every example, every filter."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from livejoin.tables.http import filters, query, topic_browser
from livejoin.tables.http.routes import openapi_document
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.decode import SCHEMAS
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
COMMANDS = re.findall(r"^    (curl .*)$", PAGE, re.MULTILINE)
LANGUAGE = PAGE.partition("## The filter language")[2].partition("\n## ")[0]
FILTERS = re.findall(r"^\| `([^|]+)` \|", LANGUAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def shown() -> Iterator[RunningServer]:
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(host, kafka=FakeKafka({"users_a": {0: [Message(0, 0)]}})) as serving:
        yield serving


def test_every_path_is_on_the_page_and_no_other() -> None:
    described = {
        f"{verb.upper()} {path}"
        for path, item in openapi_document()["paths"].items()
        for verb in item
    }
    assert set(re.findall(r"\| `((?:GET|POST|DELETE) [^`]+)` \|", PAGE)) == described


def _asked(command: str) -> str:
    """The path that a command asks for."""
    words = shlex.split(command.partition(" > ")[0])
    address = urlsplit(next(word for word in words if word.startswith("http://")))
    encoded = [words[at + 1] for at, word in enumerate(words) if word == "--data-urlencode"]
    more = [
        "=".join((name, quote(value))) for name, _, value in (e.partition("=") for e in encoded)
    ]
    return f"{address.path}?{'&'.join(filter(None, [address.query, *more]))}"


@pytest.mark.parametrize("command", [one for one in COMMANDS if "POST" not in one])
def test_an_example_is_answered(shown: RunningServer, command: str) -> None:
    assert shown.request(_asked(command)).status == 200


def test_there_are_examples() -> None:
    assert len(COMMANDS) > 8
    assert len(FILTERS) > 8


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_of_the_page_is_one(text: str) -> None:
    filters.compile_filter(text, SCHEMAS["final_ui"])


def test_the_error_on_the_page_is_the_one_that_comes(shown: RunningServer) -> None:
    command, body = re.findall(r"^    \$ (curl .*)\n    (\{.*\})$", PAGE, re.MULTILINE)[0]
    assert shown.request(_asked(command)).body.decode() == body


def test_parameters_formats_and_limits_are_those_of_the_code() -> None:
    assert [one for one in query.PARAMETERS if f"\n| `{one}` |" not in PAGE] == []
    for name, form in FORMATS.items():
        assert f"\n| `{name}` | `{form.media_type}` |" in PAGE
    assert f"at most {filters.MAX_BYTES >> 10} KiB, {filters.MAX_COMPARISONS} comparisons" in PAGE
    assert f"and {filters.MAX_DEPTH} levels" in PAGE
    assert f"up to {topic_browser.MAX_TOPICS:,} topics" in PAGE
    assert f"(1 to {topic_browser.MAX_MESSAGES}, 10 if left out)" in PAGE
