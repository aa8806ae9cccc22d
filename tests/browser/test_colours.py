"""Text can be read: each colour of text reaches 4.5 to 1 on every ground it stands on (AA)."""

import re
from itertools import product
from pathlib import Path

import pytest

from livejoin.tables.ingest import decode

STYLE = (Path(decode.__file__).parents[1] / "static" / "page.css").read_text()
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--(\w[\w-]*): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE
    )
}
TEXT = ("text", "soft", "good", "busy", "bad", "main")
GROUNDS = ("back", "card", "chosen")
LATE = re.findall(r"data-late=\"true\"\] \{ background: light-dark\((#\w+), (#\w+)\)", STYLE)


def luminance(colour: str) -> float:
    """As WCAG 2 reckons it."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_reckoning_is_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_every_ground(theme: int) -> None:
    pale = {
        (text, ground): round(contrast(PAIRS[text][theme], PAIRS[ground][theme]), 2)
        for text, ground in product(TEXT, GROUNDS)
    }
    pale["on-main", "main"] = contrast(PAIRS["on-main"][theme], PAIRS["main"][theme])
    pale |= {(text, "late"): contrast(PAIRS[text][theme], LATE[0][theme]) for text in TEXT}
    assert {pair: found for pair, found in pale.items() if found < 4.5} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_what_can_be_used_has_an_edge_that_can_be_seen(theme: int) -> None:
    assert contrast(PAIRS["edge"][theme], PAIRS["card"][theme]) >= 3


def test_numbers_in_grids_can_be_read() -> None:
    found = re.findall(r"--psp-datagrid--(?:pos|neg)-cell--color: (#\w{6})", STYLE)
    assert len(found) == 2
    assert [colour for colour in found if contrast(colour, "#ffffff") < 4.5] == []
