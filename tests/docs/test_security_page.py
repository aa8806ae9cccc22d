"""docs/security-kafka.md: every example is a block that both families of clients understand."""

import re
from pathlib import Path

import pytest
import yaml

from livejoin.config import settings
from rig.authority import Authority

PAGE = (Path(__file__).parents[2] / "docs/security-kafka.md").read_text()
EXAMPLES = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE)
PASSWORD = "for-the-test"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page names."""
    folder, authority = tmp_path_factory.mktemp("there"), Authority()
    own = authority.sign("livejoin")
    for name in ("ca.pem", "login-ca.pem"):
        authority.file(folder / name)
    (folder / "livejoin.pem").write_text(own.pem)
    (folder / "livejoin.key").write_text(own.key_pem(PASSWORD))
    own.pkcs12(folder / "livejoin.p12", PASSWORD)
    own.pkcs12(folder / "trust.p12", PASSWORD)
    for name in ("key-password", "trust-password", "store-password", "kafka-password"):
        (folder / name).write_text(PASSWORD)
    (folder / "client-secret").write_text(PASSWORD)
    (folder / "client.properties").write_text("bootstrap.servers=x:1\n")
    return folder


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_works(example: str, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_PASSWORD", "CLIENT_SECRET"):
        monkeypatch.setenv(name, PASSWORD)
    text = re.sub(r"/etc/(livejoin|kafka)|/run/secrets", str(there), example)
    block = yaml.safe_load(text)
    if "ssl.ca.pem" in block["kafka"]:
        block["kafka"]["ssl.ca.pem"] = (there / "ca.pem").read_text()
    chosen = settings.load(**block)
    assert PASSWORD not in repr(chosen)
    assert chosen.warnings == ()


def test_all_ways_to_log_in_are_shown() -> None:
    ways = ("SSL", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "extension_logicalCluster")
    for way in ways:
        assert any(way in example for example in EXAMPLES), way
    assert len(EXAMPLES) == 11
