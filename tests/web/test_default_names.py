"""The page and the module take sources and fields from the spec, and name none themselves."""

import re
from pathlib import Path

import pytest

from livejoin.core.spec import DEFAULT

WEB = Path(__file__).parents[2] / "web"
FILES = sorted(WEB.rglob("*.ts"))
# "users" is also a word for those who use the page
NAMES = {
    *(name for name in DEFAULT.source_names if name != "users"),
    *DEFAULT.source_of_topic_field,
    *DEFAULT.source_of_table,
    *(column.name for column in DEFAULT.joined_columns if column.name not in {"name", "age"}),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(WEB)))
def test_no_source_or_field_is_named(file: Path) -> None:
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read_text(), flags=re.DOTALL)
    assert not re.findall(rf"\b(?:{'|'.join(sorted(NAMES))})\b", code)
