"""Documents and help texts write times and positions in the one form that livejoin has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ("reliability.md",)  # dates of test runs
WRITTEN = sorted(
    file
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "deploy/**/*.md",
        "clients/*/*.md",
        "src/livejoin/cli/*.py",
    )
    for file in ROOT.glob(pattern)
    if "node_modules" not in file.parts and file.name not in GENERATED
)
# a date and a time of day, in whatever form
ANY_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d[\d:.,]*(?:Z|[+-]\d\d:?\d\d)?|\b\d\d?[./]\d\d?[./]\d{4}\b"
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# positions in sentences; keys and `_id`s stand in backticks
DASHED = re.compile(r"\b(?:control|message|messages|position|offset|record|records) `?\d+-\d+\b")


@pytest.mark.parametrize("file", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_times_are_iso_8601_with_a_zone(file: Path) -> None:
    text = file.read_text()
    assert [found for found in ANY_TIME.findall(text) if not TIME.fullmatch(found)] == []


@pytest.mark.parametrize("file", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_positions_are_partition_and_offset_with_a_slash(file: Path) -> None:
    assert DASHED.findall(file.read_text()) == []
