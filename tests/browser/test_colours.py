"""Contrast of the page's colours: text has at least 4.5 on every background (WCAG AA)."""

import re
from itertools import product
from pathlib import Path

import pytest

from browser.contrast import contrast
from livejoin.tables.ingest import decode

STYLE = (Path(decode.__file__).parents[1] / "static" / "page.css").read_text()
PAIRS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--(\w[\w-]*): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE
    )
}
TEXT = ("text", "muted", "good", "busy", "bad", "accent", "back", "same")
BACKGROUNDS = ("background", "card", "selected", "changed")
LATE = re.findall(r"data-late=\"true\"\] \{ background: light-dark\((#\w+), (#\w+)\)", STYLE)


def test_contrast_is_computed_correctly() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast_on_every_background(theme: int) -> None:
    found = {
        (text, under): round(contrast(PAIRS[text][theme], PAIRS[under][theme]), 2)
        for text, under in product(TEXT, BACKGROUNDS)
    }
    found["on-accent", "accent"] = contrast(PAIRS["on-accent"][theme], PAIRS["accent"][theme])
    found |= {(text, "late"): contrast(PAIRS[text][theme], LATE[0][theme]) for text in TEXT}
    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_controls_have_a_visible_border(theme: int) -> None:
    assert contrast(PAIRS["control-border"][theme], PAIRS["card"][theme]) >= 3


def test_numbers_in_grids_have_enough_contrast() -> None:
    found = re.findall(r"--psp-datagrid--(?:pos|neg)-cell--color: (#\w{6})", STYLE)
    assert len(found) == 2
    assert [colour for colour in found if contrast(colour, "#ffffff") < 4.5] == []
