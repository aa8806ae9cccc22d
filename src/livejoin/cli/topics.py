"""The commands about Kafka topics: which there are, and their newest messages."""

import json
import sys
from typing import Annotated
from urllib.parse import quote

import typer

from livejoin.cli.endpoint import endpoint
from livejoin.cli.options import Output, Url
from livejoin.cli.output import format_cell, format_table, print_line
from livejoin.client.endpoint import DEFAULT_URL

_LONG_CELL_CHARS = 1000

TopicArgument = Annotated[
    str, typer.Argument(help="Name of a topic; `livejoin topics` lists them.")
]


def topics(url: Url = DEFAULT_URL, output: Output = "table") -> None:
    """List the Kafka topics that livejoin can read.

    Each with its kind, partitions, record count and the time of its newest record. The kind tells
    topics that can be joined from the control topic and from livejoin's own topics. Kafka's
    internal topics, and those that the settings do not allow, are omitted. Records are counted by
    offset, so a compacted topic holds fewer.
    """
    answer = endpoint(url).call("api/v1/topics", expected_key="topics")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = answer["topics"]
    columns = ["name", "kind", "partitions", "records", "newest"]
    if any(row["trouble"] for row in rows):
        columns.append("trouble")
    for line in format_table(rows, columns):
        print(line)
    if answer["total"] > len(rows):
        print_line(f"{len(rows)} of {answer['total']} topics", to_stderr=True)


def peek(
    topic: TopicArgument,
    count: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of messages.")] = 10,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Print the newest messages of a Kafka topic.

    Use it to see what a topic holds before you join it. Each message is printed with its
    partition, offset, timestamp, key and value; a value that is not a JSON object is followed by
    the reason.
    """
    path = f"api/v1/topics/{quote(topic, safe='')}/peek?count={count}"
    answer = endpoint(url).call(path, expected_key="messages")
    if output == "json":
        print(json.dumps(answer))
        return
    for message in answer["messages"]:
        key = f"  key {format_cell(message['key'])}" if message["key"] is not None else ""
        position = f"{message['partition']}/{message['offset']}"
        print_line(f"{position}  {message['timestamp'] or 'no timestamp'}{key}")
        value = message["value"]
        print(f"    {'null' if value is None else format_cell(value, _LONG_CELL_CHARS)}")
        if message["reason"]:
            print(f"    {format_cell(message['reason'], _LONG_CELL_CHARS)}")
    if not answer["complete"]:
        print("timed out before all messages were read", file=sys.stderr)
