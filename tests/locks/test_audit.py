import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from livejoin.runtime import jars
from locks import audit
from locks.audit import Locked

HASH = "--hash=sha256:" + "a" * 64


@pytest.fixture
def database() -> Iterator[tuple[str, dict[str, Any]]]:
    """A database that knows what it is told."""
    told: dict[str, Any] = {"weak": {}, "raw": None}

    class Database(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
            weak = [told["weak"].get((q["package"]["name"], q["version"])) for q in queries]
            results = [{"vulns": [{"id": one} for one in names]} if names else {} for names in weak]
            body = told["raw"] or json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Database) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", told
        server.shutdown()
        thread.join()


def test_our_own_locks_are_whole() -> None:
    for file in audit.LOCKS:
        found, wrong = audit.packages(file.read_text())
        assert found
        assert wrong == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"a==1 \\\n    {HASH}\nb[x]==2 ; python_version < '4' \\\n    {HASH}\n", []),
        ("a==1\n", ["a: no sha256"]),
        (f"a>=1 {HASH}", [f"a>=1 {HASH}"[:60] + ": no version is pinned"]),
        (f"a==1 {HASH[:-1]}", ["a: no sha256"]),
        (
            f"--index-url https://x\na==1 {HASH}",
            [
                "--index-url https://x: no version is pinned",
                "an address stands in it: it would not work behind a mirror",
            ],
        ),
        ("# made by hand\n", []),
    ],
)
def test_what_is_not_whole_is_named(text: str, wrong: list[str]) -> None:
    assert audit.packages(text)[1] == wrong


def test_names_and_versions_are_read() -> None:
    text = f"a==1 \\\n    {HASH}\nb[x]==2.0 ; python_version < '4' \\\n    {HASH}\n"
    assert audit.packages(text)[0] == [Locked("PyPI", "a", "1"), Locked("PyPI", "b", "2.0")]


def test_a_jar_that_was_changed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = jars.Jar("spark", "org.x:y:1", "b" * 64)
    assert audit.wrong_jars([jar]) == []
    jar.file.parent.mkdir(parents=True)
    jar.file.write_bytes(b"something else")
    [wrong] = audit.wrong_jars([jar])
    assert str(jar.file) in wrong
    assert "not " + "b" * 64 in wrong
    assert audit.wrong_jars([jars.Jar("spark", "org.x:y:1", "")]) == ["org.x:y:1: no sha256"]


def test_what_is_known_to_be_weak_fails_and_is_named(
    database: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    service, told = database
    assert audit.audit(service) == 0
    one = next(jar for jar in jars.read_lock_file() if "jackson-databind" in jar.coordinate)
    group, name, version = one.coordinate.split(":")
    told["weak"] = {(f"{group}:{name}", version): ["GHSA-1", "CVE-2"]}
    assert audit.audit(service) == 1
    assert f"{group}:{name} {version} is known to be weak: GHSA-1, CVE-2" in capsys.readouterr().err


@pytest.mark.parametrize("raw", [b"<html>", b"{}", b'{"results": []}', b"[]"])
def test_a_database_that_does_not_answer_is_said_and_is_no_failure(
    database: tuple[str, dict[str, Any]], capsys: pytest.CaptureFixture[str], raw: bytes
) -> None:
    service, told = database
    told["raw"] = raw
    assert audit.audit(service) == 0
    assert "were NOT checked for known weaknesses" in capsys.readouterr().err
