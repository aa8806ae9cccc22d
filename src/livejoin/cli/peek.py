"""The command `peek`: messages of a Kafka topic."""

import json
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from livejoin.cli.options import Output, Url, endpoint
from livejoin.cli.output import LONG_CELL_CHARS, format_cell, print_line, print_stream
from livejoin.client.endpoint import DEFAULT_URL


def peek(  # noqa: PLR0913 - one option per query parameter
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Name of a topic; `livejoin topics` lists them.")],
    *,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="From this offset on; needs --partition.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="From a time or an age on: 2026-01-31T12:00:00Z, 1h, or earliest."),
    ] = None,
    older: Annotated[
        str | None, typer.Option(help="What precedes these offsets, such as 0:120,1:88.")
    ] = None,
    newer: Annotated[str | None, typer.Option(help="From these offsets on.")] = None,
    search: Annotated[
        str | None, typer.Option(help="Only messages with this text in key or value.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of messages.")] = 10,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the values alone, one per line.")
    ] = False,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Print messages of a Kafka topic, the newest or others.

    Use it to see what a topic holds before you join it, or why a record was rejected. Each message
    is printed with its partition, offset, timestamp, key, headers and value; a value that a source
    would reject is followed by the reason. The newest message comes first; from an offset or a
    time on, the oldest.

    A search ignores case, and gives up after a few seconds or 200,000 messages. The last line, on
    standard error, has the option that goes on from there, or to the next messages.

        livejoin peek users --time 1h --search ada
        livejoin peek users --partition 0 --offset 120 --count 1
        livejoin peek users --raw | jq .age
    """
    if raw and output == "json":
        context.fail("--raw and --output json exclude each other")
    parameters = {
        "count": count,
        "partition": partition,
        "offset": offset,
        "time": time,
        "older": older,
        "newer": newer,
        "search": search,
    }
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    path = f"api/v1/topics/{quote(topic, safe='')}/peek?{query}"
    answer = endpoint(url).call(path, expected_key="messages")
    if output == "json":
        print(json.dumps(answer))
        return
    if raw:
        values = (message["value"] for message in answer["messages"])
        print_stream(f"{value}\n".encode(errors="replace") for value in values if value is not None)
    else:
        for message in answer["messages"]:
            _print_message(message)
    went_back = offset is None and newer is None and time in (None, "latest")
    print_line(_last_line(answer, went_back=went_back), to_stderr=True)


def _print_message(message: dict[str, Any]) -> None:
    key = f"  key {format_cell(message['key'])}" if message["key"] is not None else ""
    position = f"{message['partition']}/{message['offset']}"
    print_line(f"{position}  {message['timestamp'] or 'no timestamp'}{key}")
    headers = [_header(header) for header in message.get("headers", [])]
    if headers:
        print_line(f"    headers {', '.join(headers)}")
    print(f"    {format_cell(message['value'], LONG_CELL_CHARS)}")
    if message["reason"]:
        print(f"    {format_cell(message['reason'], LONG_CELL_CHARS)}")


def _header(header: dict[str, Any]) -> str:
    if header["base64"] is not None:
        return f"{header['name']}=base64:{header['base64']}"
    return f"{header['name']}={format_cell(header['text'])}"


def _last_line(answer: dict[str, Any], *, went_back: bool) -> str:
    """How many messages there are, how far a search got, and the option that goes on."""
    messages = answer["messages"]
    parts = ["1 message" if len(messages) == 1 else f"{len(messages)} messages"]
    if cut := sum(bool(message.get("cut")) for message in messages):
        parts.append(f"{cut} cut at 4 KiB")
    if not answer.get("complete", True):
        until = f", {'back' if went_back else 'up'} to {answer['reached']}"
        parts.append(
            f"stopped after reading {answer['scanned']}{until if answer['reached'] else ''}"
        )
    direction = "older" if went_back else "newer"
    if position := answer.get(direction):
        parts.append(f"go on with --{direction} {position}")
    return "; ".join(parts)
