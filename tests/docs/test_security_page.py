"""docs/security-kafka.md: examples fit both client libraries, rights are those of the plan."""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from livejoin.cli.main import cli
from livejoin.config import settings
from livejoin.core import rights
from livejoin.core.names import Names
from rig.authority import Authority

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "security-kafka.md").read_text()
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


# --- rights

ONE = "kafka: {bootstrap.servers: 'kafka-platform:9092'}"
ROLES: dict[str, rights.Role] = {"kafka": "own", "kafka_data": "data", "kafka_control": "control"}


def _section(heading: str, page: str = PAGE) -> str:
    return re.split(r"\n##", page.split(f"# {heading}\n")[1])[0]


def _several() -> str:
    section = _section("Several clusters", (DOCS / "settings.md").read_text())
    (block,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    return str(block)


@pytest.mark.usefixtures("no_settings")
@pytest.mark.parametrize("heading", ["One cluster", "Three clusters", "Further servers"])
def test_the_rights_are_those_that_the_plan_prints(heading: str, tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(_several() if heading == "Three clusters" else ONE)
    section = _section(heading)
    prose = " ".join(section.partition("```")[0].replace("`", " ").split())
    options = " ".join(re.findall(r"--serve|--principal\S* User:\S+\b", prose)).split()
    command = ["topics", "plan", "-c", str(file), *options, "--output", "json"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    documented = [line for line in section.splitlines() if line.startswith("kafka-acls ")]
    assert documented
    assert documented == json.loads(done.stdout)["grant"]


def test_the_table_has_the_least_rights_of_each_block() -> None:
    inputs = rights.Inputs(("users", "accounts"), "control")
    expected = {
        (section, f"{one.resource} {one.name}", one.is_prefix, frozenset(one.operations))
        for section, role in ROLES.items()
        for one in rights.run_grants(Names("livejoin"), inputs, [role], creates=True)
    }
    found, block = set(), ""
    for line in re.findall(r"(?m)^\| (.*) \|$", _section("Rights"))[1:]:
        cells = [cell.strip() for cell in line.split("|")]
        block = cells[0].strip("`") or block
        resource, _, prefixed = cells[1].replace("`", "").partition(", ")
        found.add((block, resource, bool(prefixed), frozenset(cells[2].split(", "))))
    assert found == expected
