"""docs/security-kafka.md: every example is valid for both client libraries."""

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
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files named on the page."""
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
def test_an_example_is_valid(example: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_PASSWORD", "CLIENT_SECRET"):
        monkeypatch.setenv(name, PASSWORD)
    text = re.sub(r"/etc/(livejoin|kafka)|/run/secrets", str(files), example)
    block = yaml.safe_load(text)
    if "ssl.ca.pem" in block["kafka"]:
        block["kafka"]["ssl.ca.pem"] = (files / "ca.pem").read_text()
    chosen = settings.load(**block)
    assert PASSWORD not in repr(chosen)
    assert chosen.warnings == ()


def test_every_login_method_has_an_example() -> None:
    methods = ("SSL", "PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "extension_logicalCluster")
    for method in methods:
        assert any(method in example for example in EXAMPLES), method
    assert len(EXAMPLES) == 11
