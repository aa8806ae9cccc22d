"""Table servers and clients take sources and fields from the spec, and name none themselves."""

import re
from pathlib import Path

import pytest

import livejoin
from livejoin.core.spec import DEFAULT

PACKAGE = Path(livejoin.__file__).parent
FILES = sorted(file for folder in ("tables", "client") for file in (PACKAGE / folder).rglob("*.py"))
NAMES = {
    *DEFAULT.source_names,
    *DEFAULT.source_of_topic_field,
    *DEFAULT.source_of_table,
    DEFAULT.key.name,
    "accountType",
    r"(spec\.|import )DEFAULT",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_source_or_field_is_named(file: Path) -> None:
    assert not re.findall(rf"\b(?:{'|'.join(sorted(NAMES))})\b", file.read_text())
