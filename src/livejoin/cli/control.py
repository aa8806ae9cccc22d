"""The commands about control messages: send, preview, rollback, schema."""

import json
import sys
import time
from typing import Annotated, Any

import typer

from livejoin.cli.options import (
    Config,
    Expect,
    JoinType,
    MessageId,
    Output,
    Start,
    Url,
    endpoint,
    topic_fields,
)
from livejoin.cli.output import LONG_CELL_CHARS, escape_unprintable, format_table, print_line
from livejoin.client import requests
from livejoin.client.endpoint import DEFAULT_URL, Endpoint
from livejoin.core import control_messages
from livejoin.errors import RequestError

_POLL_S = 0.2


def send(  # noqa: PLR0913 - one option per field of a message
    context: typer.Context,
    join: JoinType = None,
    start: Start = None,
    expect: Expect = None,
    message_id: MessageId = None,
    *,
    wait: Annotated[bool, typer.Option(help="Wait until the swap is done.")] = True,
    limit: Annotated[float, typer.Option(help="Maximum wait in seconds.")] = 600,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Request other topics or another join.

    `--NAME-topic TOPIC` names the topic of the source NAME. Name at least one field; those that are
    omitted keep their current values. The message is written to the control topic like any other,
    and the command waits until the swap is done. It prints the outcome (`live: generation 7 after
    0.9 s`). A rejection or a failed build exits with code 1 and the reason.

        livejoin send --users-topic users_b --accounts-topic accounts_b
        livejoin send --join inner
    """
    message = topic_fields(context) | _message(join, start, expect, message_id)
    if not message:
        context.fail(
            "no field is given; name at least one of --NAME-topic (of the source NAME), --join,"
            " --start, --expect, --id"
        )
    server = endpoint(url)
    answer = server.call("api/v1/control", message)
    number = answer["generation"]
    if wait and number is not None and answer["outcome"] in ("accepted", "building"):
        row = _wait_for_generation(server, number, limit)
        answer |= {"outcome": row["state"], "reason": row["message"]}
        answer["tookSeconds"] = row["catchUpSeconds"]
    _print_outcome(answer, output)


def rollback(
    expect: Expect = None,
    message_id: MessageId = None,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Roll back to the standby generation at once.

    Live and standby trade places. Exits with code 1 if there is no standby generation.
    """
    message = _message(None, None, expect, message_id)
    _print_outcome(endpoint(url).call("api/v1/rollback", message), output)


def preview(  # noqa: PLR0913 - one option per field of a message
    context: typer.Context,
    join: JoinType = None,
    start: Start = None,
    expect: Expect = None,
    *,
    rollback: Annotated[bool, typer.Option("--rollback", help="Preview a rollback.")] = False,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Show what a request would do, without doing it.

    Takes the fields of `livejoin send`. Prints what would be built and read, whether the topics
    exist, how many task slots are needed, what would be live and on standby afterwards, and what
    would be stopped. Exits with code 1 if the request would be rejected.

        livejoin preview --join left_outer
        livejoin preview --rollback
    """
    message = topic_fields(context) | _message(join, start, expect, None)
    if rollback:
        message["action"] = "rollback"
    plan = endpoint(url).call("api/v1/preview", message)
    if output == "json":
        print(json.dumps(plan))
    else:
        for line in _plan_lines(plan):
            print_line(line)
    if plan["outcome"] == "rejected":
        raise typer.Exit(1)


def schema(config: Config = None, output: Output = "json") -> None:
    """Print the JSON Schema of a control message.

    Use it in editors and in your own checks. It needs no running livejoin; with -c it is that of
    the sources in a settings file. The table format lists the fields.
    """
    from livejoin.config import settings  # noqa: PLC0415 - slow to import

    join_spec = settings.load(config).join_spec
    if output == "json":
        print(json.dumps(control_messages.message_schema(join_spec), indent=2))
        return
    rows = [
        {"field": name, "meaning": field.get("description") or ", ".join(field["examples"])}
        for name, field in control_messages.message_schema(join_spec)["properties"].items()
    ]
    for line in format_table(rows, ["field", "meaning"], LONG_CELL_CHARS):
        print(line)


def _message(*values: Any) -> dict[str, Any]:
    names = ("joinType", "start", "expectedGeneration", "id")
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _wait_for_generation(server: Endpoint, generation: int, limit_s: float) -> dict[str, Any]:
    """Wait until a generation is live or ended, and return its row of `generations`."""
    deadline = time.monotonic() + limit_s
    printed = ""
    while True:
        answer = server.call("api/v1/generations", expected_key="generations")
        if (row := requests.finished_generation(answer, generation)) is not None:
            _print_progress("")
            return row
        status = server.call("api/v1/status", expected_key="message")
        if status["message"] != printed:
            printed = status["message"]
            _print_progress(printed)
        if time.monotonic() > deadline:
            raise RequestError(
                f"generation {generation} is still being built after {limit_s:.0f} s",
                hint="The build continues; `livejoin status` shows its progress.",
            )
        time.sleep(_POLL_S)


def _print_progress(text: str) -> None:
    """Overwrite the progress line, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{escape_unprintable(text)}", end="", file=sys.stderr, flush=True)


def _print_outcome(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        print(json.dumps(answer))
    else:
        number = answer["generation"]
        generation = f": generation {number}" if number is not None else ""
        seconds = answer.get("tookSeconds")
        duration = f" after {seconds:.1f} s" if seconds is not None else ""
        reason = f" ({answer['reason']})" if answer["reason"] else ""
        print_line(f"{answer['outcome']}{generation}{duration}{reason}")
        for warning in _warnings(answer):
            print_line(f"warning: {warning}; it is ignored")
    if answer["outcome"] in ("failed", "superseded", "cancelled"):
        raise typer.Exit(1)


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    if plan["outcome"] == "rejected":
        return [f"would be rejected: {plan['reason']}"]
    slots, after = plan["slots"], plan["afterwards"]
    lines = [f"{'outcome':<12} {plan['outcome']}"]
    lines += [f"{'builds':<12} {plan['build']}"] if plan["build"] else []
    for name, topic in plan["topics"].items():
        lines.append(
            f"{'reads':<12} {name}: {topic['records']} records, {topic['partitions']} partitions"
        )
    lines += [
        f"{'task slots':<12} {slots['needed']} more, {slots['held']} of {slots['total']} in use",
        f"{'live':<12} {plan['now']['live']} now, {after['live']} afterwards",
        f"{'standby':<12} {after['standby'] or 'nothing'} afterwards",
    ]
    stopped = ", ".join(f"generation {number}" for number in plan["stopped"])
    lines.append(f"{'stops':<12} {stopped or 'nothing'}")
    return [*lines, *(f"{'ignored':<12} {warning}" for warning in _warnings(plan))]


def _warnings(answer: dict[str, Any]) -> list[str]:
    """What of the message was ignored; servers of earlier versions do not say it."""
    return answer.get("warnings") or []
