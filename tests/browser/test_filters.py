"""Filters of a grid in a real browser: quick filter, chips, counts, the menu of a cell."""

from functools import partial

from playwright.sync_api import Locator, Page

from browser.looking import (
    LIMIT_S,
    address,
    arrange,
    cell,
    config,
    drawn,
    rows,
    says,
    swap,
)
from browser.staged import Stage
from rig.running import until

COUNT = 200
FINAL = "section[data-area=final]"
ODD = "a \"b\" 'c' \\d (e) [f] {g} %Ä 1+1"
GOLD = [["accountType", "==", "gold"]]


def quick(page: Page, text: str) -> None:
    page.fill(f"{FINAL} .quick", text)


def chips(page: Page) -> list[str]:
    return page.locator(f"{FINAL} .chip > span").all_inner_texts()


def remove(page: Page, chip: str) -> Locator:
    return page.locator(f"{FINAL} .chip", has_text=chip).locator("button")


def shown(page: Page) -> list[str]:
    return sorted(row["userId"] for row in rows(page, "final_ui"))


def test_the_quick_filter_searches_every_column_and_says_how_many_rows_pass(
    stage: Stage, page: Page
) -> None:
    everything = rows(page, "final_ui")
    ada = [row for row in everything if "ada" in f"{row['name']} {row['email']}".lower()]
    assert 0 < len(ada) < len(everything)
    quick(page, "ADA")
    says(page, f"{FINAL} .count", f"{len(ada)} of {len(everything)}")
    assert shown(page) == sorted(row["userId"] for row in ada)
    assert chips(page) == ["any column contains ADA"]
    stage.join(700, name="Adamo")
    says(page, f"{FINAL} .count", f"{len(ada) + 1} of {len(everything) + 1}")
    stage.join(701, name="Bob", email="b@example.org")
    says(page, f"{FINAL} .count", f"{len(ada) + 1} of {len(everything) + 2}")
    remove(page, "ADA").click()
    until(lambda: len(rows(page, "final_ui")) == len(everything) + 2, "all rows", LIMIT_S)
    assert page.input_value(f"{FINAL} .quick") == ""
    assert page.locator(f"{FINAL} .chips").is_hidden()
    assert config(page, "final_ui")["expressions"] == {}
    says(page, f"{FINAL} .count", str(len(everything) + 2))
    assert " of " not in page.inner_text(f"{FINAL} .count")


def test_the_quick_filter_finds_numbers_as_they_are_written(stage: Stage, page: Page) -> None:
    stage.join(710, userId="exact", balance=9_265_417.41, age=123)
    stage.join(711, userId="minus", balance=-9_265_417.41, age=None)
    stage.join(712, userId="rounded", balance=1.005001)
    for text, found in (
        ("1.01", ["rounded"]),
        ("9,265,417.41", ["exact", "minus"]),
        ("9265417.4", ["exact", "minus"]),
        ("-9,265,417", ["minus"]),
        ("265417", ["exact", "minus"]),
        ("417.41", ["exact", "minus"]),
        ("9265417.42", []),
        ("123", ["exact"]),
    ):
        quick(page, text)
        until(partial(_searches, page, text), text, LIMIT_S)
        ids = {row["userId"] for row in rows(page, "final_ui")} & {"exact", "minus", "rounded"}
        assert sorted(ids) == found, text


def test_the_quick_filter_takes_every_character_as_itself(stage: Stage, page: Page) -> None:
    stage.join(720, userId="odd", name=ODD)
    for text in (*ODD.split(), ODD, ".*"):
        quick(page, text)
        until(partial(_searches, page, text), text, LIMIT_S)
        if text == ".*":
            assert shown(page) == []
        else:
            assert "odd" in shown(page), text


def _searches(page: Page, text: str) -> bool:
    return chips(page) == [f"any column contains {text}"]


def test_every_filter_has_a_chip_that_removes_it(page: Page) -> None:
    arrange(page, "final_ui", filter=[*GOLD, ["age", ">=", 40], ["email", "is not null", None]])
    texts = ["accountType = gold", "age ≥ 40", "email is not null"]
    until(lambda: chips(page) == texts, "one chip each", LIMIT_S)
    quick(page, "ada")
    until(lambda: chips(page) == [*texts, "any column contains ada"], "one more", LIMIT_S)
    remove(page, "age ≥ 40").click()
    until(lambda: chips(page) == [texts[0], texts[2], "any column contains ada"], "less", LIMIT_S)
    assert {row["accountType"] for row in rows(page, "final_ui")} == {"gold"}
    page.click(f"{FINAL} .chips button:text-is('Clear all')")
    until(lambda: config(page, "final_ui")["filter"] == [], "none", LIMIT_S)
    assert config(page, "final_ui")["expressions"] == {}


def test_filters_are_in_the_link_and_survive_a_swap(stage: Stage, page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("ada")
    until(lambda: chips(page) == ["any column contains ada"], "filtered", LIMIT_S)
    until(lambda: "layout" in address(page), "the layout is in the address", LIMIT_S)
    before = page.inner_text(f"{FINAL} .count")
    page.wait_for_timeout(500)  # saving is delayed
    page.reload()
    drawn(page)
    until(lambda: chips(page) == ["any column contains ada"], "filtered again", LIMIT_S)
    assert page.input_value(f"{FINAL} .quick") == "ada"
    says(page, f"{FINAL} .count", before)
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    says(page, "#generation", "generation 2")
    until(lambda: all(u.startswith("b-") for u in shown(page)), "other rows", LIMIT_S)
    assert chips(page) == ["any column contains ada"]
    assert 0 < len(shown(page)) < COUNT / 4
    swap(stage, b'{"action": "rollback"}')


def test_a_chart_keeps_the_filters(page: Page) -> None:
    quick(page, "ada")
    until(lambda: chips(page) == ["any column contains ada"], "filtered", LIMIT_S)
    page.select_option(f"{FINAL} select", "Y Bar")
    until(lambda: config(page, "final_ui")["plugin"] == "Y Bar", "the chart is shown", LIMIT_S)
    assert chips(page) == ["any column contains ada", "accountType is not null"]
    page.select_option(f"{FINAL} select", "Datagrid")
    until(lambda: chips(page) == ["any column contains ada"], "a grid again", LIMIT_S)
    assert all("ada" in row["email"] for row in rows(page, "final_ui"))


def menu(page: Page, row: int, column: int) -> list[str]:
    """The menu of a cell, counted from 1."""
    cell(page, "final", row, column).click(button="right")
    page.wait_for_selector(".menu:popover-open")
    return page.locator(".menu [role=menuitem]").all_inner_texts()


def choose(page: Page, item: str) -> None:
    page.locator(".menu [role=menuitem]", has_text=item).first.click()
    page.wait_for_selector(".menu", state="detached")


def test_a_right_click_on_a_cell_filters_by_its_value(page: Page) -> None:
    arrange(page, "final_ui", sort=[["userId", "asc"]])
    until(lambda: cell(page, "final", 2, 1).inner_text() == "a-0001", "drawn", LIMIT_S)
    items = menu(page, 2, 5)
    assert [item.strip() for item in items] == [
        "accountType = savings",
        "accountType ≠ savings",
        "Copy the value",
    ]
    choose(page, "accountType = savings")
    until(lambda: chips(page) == ["accountType = savings"], "filtered", LIMIT_S)
    found = rows(page, "final_ui")
    assert {row["accountType"] for row in found} == {"savings"}
    says(page, f"{FINAL} .count", f"{len(found)} of ")
    until(lambda: cell(page, "final", 3, 5).inner_text() == "savings", "drawn", LIMIT_S)
    balance = found[2]["balance"]
    assert f"balance ≥ {balance:,}" in [item.strip() for item in menu(page, 3, 6)]
    choose(page, "balance ≥")
    until(lambda: len(chips(page)) == 2, "a second filter", LIMIT_S)
    assert min(row["balance"] for row in rows(page, "final_ui")) == balance
    assert page.is_hidden(".menu")
    page.click(f"{FINAL} .chips button:text-is('Clear all')")
    until(lambda: config(page, "final_ui")["filter"] == [], "none", LIMIT_S)


def test_a_right_click_filters_by_null_and_by_group(page: Page) -> None:
    arrange(page, "final_ui", sort=[["userId", "desc"]], filter=[["userId", "==", "x"]])
    until(lambda: cell(page, "final", 1, 1).inner_text() == "x", "drawn", LIMIT_S)
    assert menu(page, 1, 6)[0].strip() == "balance is null"
    choose(page, "balance is not null")
    texts = ["userId = x", "balance is not null"]
    until(lambda: chips(page) == texts, "filtered", LIMIT_S)
    page.wait_for_selector(f"{FINAL} .empty button:text-is('Clear the filter')")
    arrange(page, "final_ui", filter=[], group_by=["accountType"], sort=[])
    group = page.locator(f"{FINAL} tbody tr:nth-child(3)")
    until(lambda: group.locator("th").last.inner_text() == "checking", "grouped", LIMIT_S)
    group.locator("td").first.click(button="right")
    page.wait_for_selector(".menu:popover-open")
    choose(page, "accountType = checking")
    until(lambda: chips(page) == ["accountType = checking"], "filtered", LIMIT_S)
