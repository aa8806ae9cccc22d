"""The commands about Kafka topics: which there are, and their newest messages."""

import json
import sys
from typing import Annotated
from urllib.parse import quote

import typer

from livejoin.cli.options import Output, Url
from livejoin.cli.text import format_cell, format_table, print_line
from livejoin.client import http

_LONG_CELL_CHARS = 1000

TopicArgument = Annotated[
    str, typer.Argument(help="Name of a topic; `livejoin topics` lists them.")
]


def topics(url: Url = http.DEFAULT_URL, output: Output = "table") -> None:
    """List the Kafka topics that livejoin may read.

    Each with its partitions, its records and the newest record's time. Kind says what a topic is to
    livejoin: data that can be joined, the control topic, or one of livejoin's own. Kafka's internal
    topics, and those that the settings do not allow, are left out. The records are counted by
    offsets, so that a compacted topic holds fewer.
    """
    answer = http.get(url, "api/v1/topics", "topics")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = answer["topics"]
    names = ["name", "kind", "partitions", "records", "newest"]
    trouble = ["trouble"] if any(row["trouble"] for row in rows) else []
    for line in format_table(rows, names + trouble):
        print(line)
    if answer["total"] > len(rows):
        print_line(f"{len(rows)} of {answer['total']} topics", aside=True)


def peek(
    topic: TopicArgument,
    count: Annotated[int, typer.Option(min=1, max=100, help="How many messages at most.")] = 10,
    url: Url = http.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Print the newest messages of a Kafka topic.

    Use it to see what a topic holds before you join it. Of each message you see where it stands,
    its time, its key and its value; below a value that is no JSON object, the reason.
    """
    path = f"api/v1/topics/{quote(topic, safe='')}/peek?count={count}"
    answer = http.get(url, path, "messages")
    if output == "json":
        print(json.dumps(answer))
        return
    for one in answer["messages"]:
        key = f"  key {format_cell(one['key'])}" if one["key"] is not None else ""
        print_line(f"{one['partition']}/{one['offset']}  {one['timestamp'] or 'no time'}{key}")
        print(
            f"    {format_cell(one['value'], _LONG_CELL_CHARS)}"
            if one["value"] is not None
            else "    null"
        )
        if one["reason"]:
            print(f"    {format_cell(one['reason'], _LONG_CELL_CHARS)}")
    if not answer["complete"]:
        print("there was no time to read all of them", file=sys.stderr)
