"""static/page/arrange in Node.js: the edits of a viewer's configuration, without a page."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from livejoin.core import spec
from livejoin.tables.ingest import decode

NODE = shutil.which("node")
FOLDER = Path(decode.__file__).parents[1] / "static" / "page" / "arrange"
DRIVER = Path(__file__).parent / "module" / "functions.mjs"
TYPES = {"_id": "string", "key": "string", "kind": "string", "size": "float", "at": "datetime"}
CHART = {
    "group_by": ["kind"],
    "columns": ["size"],
    "aggregates": {"size": "sum"},
    "filter": [["kind", "is not null", None]],
}
GRID = {"columns": ["key", "kind", "size", "at"], "sort": [["_ts", "desc"]]}
NOON_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC

Call = Callable[..., Any]

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """Call a function of one of the modules, in a time zone other than UTC."""
    assert NODE is not None
    environment = {**os.environ, "TZ": "America/New_York"}
    with subprocess.Popen(
        [NODE, str(DRIVER), str(FOLDER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        requests, responses = node.stdin, node.stdout

        def calling(module: str, name: str, *given: Any) -> Any:
            requests.write(json.dumps([f"{module}.js", name, given]).encode() + b"\n")
            requests.flush()
            return json.loads(responses.readline())

        yield calling
        requests.close()


def test_nothing_in_the_folder_names_a_source_a_table_or_a_column() -> None:
    fields = {field.name for source in spec.DEFAULT.sources for field in source.fields} - {"name"}
    words = {word for file in FOLDER.glob("*.js") for word in re.findall(r"\w+", file.read_text())}
    assert "group_by" in words
    assert (
        words
        & (fields | set(spec.DEFAULT.tables) | {source.name for source in spec.DEFAULT.sources})
        == set()
    )


@pytest.mark.parametrize(
    ("type_", "operator", "text", "value"),
    [
        ("string", "==", "gold", "gold"),
        ("string", "contains", " ", None),
        ("string", "in", "gold\n\n silver \n", ["gold", "silver"]),
        ("string", "in", "\n", None),
        ("float", ">", "20000.5", 20000.5),
        ("float", ">", "", None),
        ("float", ">", "x", None),
        ("float", ">", "0", 0),
        ("integer", "==", "36", 36),
        ("integer", "==", "36.5", None),
        ("boolean", "==", "false", False),
        ("boolean", "==", "", None),
        ("datetime", ">=", "2026-01-01T07:00", NOON_MS),
        ("datetime", ">=", "2026-01-01T07:0", None),
        ("date", "<", "2026-01-01", "2026-01-01"),
    ],
)
def test_a_filter_has_no_effect_before_it_has_a_value_of_its_type(
    call: Call, type_: str, operator: str, text: str, value: Any
) -> None:
    draft = {"column": "c", "operator": operator, "text": text}
    found = call("operators", "readFilter", draft, type_, "local")
    assert found == (None if value is None else ["c", operator, value])


@pytest.mark.parametrize("zone", ["local", "UTC"])
@pytest.mark.parametrize(
    ("type_", "filter_"),
    [
        ("string", ["c", "in", ["gold", "silver"]]),
        ("string", ["c", "is null", None]),
        ("float", ["c", "<=", -0.25]),
        ("boolean", ["c", "==", True]),
        ("datetime", ["c", "<", NOON_MS + 123]),
        ("date", ["c", "==", "2026-01-01"]),
    ],
)
def test_a_filter_is_the_same_after_it_was_shown(
    call: Call, type_: str, filter_: list[Any], zone: str
) -> None:
    draft = call("operators", "draftOf", filter_, type_, zone)
    assert call("operators", "readFilter", draft, type_, zone) == filter_


def test_times_are_shown_in_the_chosen_time_zone(call: Call) -> None:
    shown = [
        call("operators", "draftOf", ["c", "<", NOON_MS], "datetime", zone)["text"]
        for zone in ("local", "UTC")
    ]
    assert shown == ["2026-01-01T07:00:00.000", "2026-01-01T12:00:00.000"]
    without_zone = call(
        "operators", "draftOf", ["c", "<", "2026-01-01T12:00:00"], "datetime", "UTC"
    )
    assert without_zone["text"] == "2026-01-01T12:00:00.000", "the engine reads it as UTC"


def test_another_column_keeps_what_its_type_allows(call: Call) -> None:
    draft = {"column": "key", "operator": "contains", "text": "a"}
    other = call("operators", "withColumn", draft, "kind", "string", "string")
    assert other == {"column": "kind", "operator": "contains", "text": "a"}
    number = call("operators", "withColumn", draft, "size", "string", "float")
    assert number == {"column": "size", "operator": ">", "text": ""}


def test_columns_are_listed_as_shown_then_the_others_then_livejoins_own(call: Call) -> None:
    config = {"columns": ["size", None, "key"]}
    listed = call("arrangement", "listedColumns", config, TYPES)
    assert listed == ["size", "key", "kind", "at", "_id"]
    assert call("arrangement", "withColumn", config, "kind")["columns"] == [
        "size",
        "key",
        "kind",
    ]
    assert call("arrangement", "withoutColumn", config, "size")["columns"] == ["key"]
    assert call("arrangement", "withoutColumn", {"columns": ["key"]}, "key") == {}
    assert call("arrangement", "moved", ["a", "b", "c"], 2, 0) == ["c", "a", "b"]
    assert call("arrangement", "moved", ["a", "b", "c"], 0, -1) == ["a", "b", "c"]


def test_a_sort_is_added_by_a_column_that_is_not_yet_sorted(call: Call) -> None:
    arrival = {"sort": [["_ts", "desc"]]}
    assert call("arrangement", "chosenSort", "a_table", arrival) == []
    first = call("arrangement", "withSort", "a_table", arrival, TYPES)
    assert first == {"sort": [["key", "asc"]]}, "it takes the place of the order of arrival"
    two = {"sort": [["key", "asc"], ["kind", "desc"]]}
    assert call("arrangement", "withSort", "a_table", two, TYPES)["sort"][-1] == ["size", "asc"]


def test_a_chart_becomes_the_grid_that_it_was(call: Call) -> None:
    mine = ["size", ">", 1]
    grid = {"plugin": "Datagrid", "columns": ["key"], "group_by": [], "sort": [["key", "asc"]]}
    chart = call("chart_kinds", "toChart", {**grid, "filter": [mine]}, "Y Bar", CHART)
    assert chart == {"plugin": "Y Bar", **CHART, "filter": [mine, *CHART["filter"]]}
    remembered = call("chart_kinds", "rememberedGrid", grid)
    later = {**grid, **chart, "filter": [*CHART["filter"], ["kind", "==", "a"]], "sort": []}
    back = call("chart_kinds", "toGrid", later, remembered, CHART, GRID)
    assert {name: back[name] for name in grid} == grid
    assert back["filter"] == [["kind", "==", "a"]], "filters are as they were changed meanwhile"
    assert back["split_by"] == []


def test_a_chart_without_memory_becomes_a_plain_grid_with_the_users_filters(call: Call) -> None:
    chart = {"plugin": "Y Bar", **CHART, "filter": [["size", ">", 1], *CHART["filter"]]}
    back = call("chart_kinds", "toGrid", chart, None, CHART, GRID)
    assert (back["columns"], back["sort"]) == (GRID["columns"], GRID["sort"])
    assert (back["group_by"], back["aggregates"]) == ([], {})
    assert back["filter"] == [["size", ">", 1]]


def test_groups_that_the_user_chose_are_kept(call: Call) -> None:
    chart = {"plugin": "Treemap", **CHART, "group_by": ["key"], "columns": ["size", None, None]}
    back = call("chart_kinds", "toGrid", chart, None, CHART, GRID)
    assert back == {"plugin": "Datagrid", "group_rollup_mode": "rollup", "columns": ["size"]}
    assert call("chart_kinds", "rememberedGrid", chart) is None
    grouped = {"plugin": "Datagrid", "group_by": ["key"], "columns": ["size", "at"], "filter": []}
    assert call("chart_kinds", "rememberedGrid", grouped)["columns"] == ["size", "at"]
    assert call("chart_kinds", "toChart", grouped, "Y Bar", CHART) == {
        "plugin": "Y Bar",
        "filter": [],
    }


def test_a_chart_of_points_shows_rows(call: Call) -> None:
    grid = {**GRID, "plugin": "Datagrid", "group_by": [], "filter": []}
    assert call("chart_kinds", "toChart", grid, "X/Y Scatter", CHART) == {
        "plugin": "X/Y Scatter",
        "filter": [],
    }
