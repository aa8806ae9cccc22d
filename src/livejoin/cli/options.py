"""What several commands take: options, the livejoin that --url names, help texts of docstrings."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from livejoin.client import credentials
from livejoin.client.endpoint import ClientProgram, Endpoint
from livejoin.core.names import nearest

Config = Annotated[Path | None, typer.Option("-c", "--config", help="YAML settings file.")]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", help="table for people, json for programs."),
]
Port = Annotated[int | None, typer.Option("--port", help="HTTP port; 0 picks a free one.")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Require no tokens: anyone who can connect has full access."),
]
Url = Annotated[
    str, typer.Option(envvar=credentials.URL_VARIABLE, help="URL of the running livejoin.")
]
JoinType = Annotated[str | None, typer.Option(help="Join type: left, inner or left_outer.")]
Start = Annotated[
    str | None,
    typer.Option(help="Start at earliest, latest, a time or an age; forces a new build."),
]
Expect = Annotated[
    int | None, typer.Option(help="Reject the request unless this generation is live.")
]
MessageId = Annotated[
    str | None, typer.Option("--id", help="Message id; a message with a known id is ignored.")
]

COMMAND_LINE = ClientProgram(
    "cli",
    url_hint="Start one with `livejoin demo`, or set its URL with --url.",
    access_hint=f"Set a token in the environment variable {credentials.ENVIRONMENT_VARIABLE}.",
)


def endpoint(url: str) -> Endpoint:
    """Return the livejoin at a URL, with the token of the environment or the stored one."""
    checked = Endpoint(url, program=COMMAND_LINE)
    return replace(checked, token=credentials.find_token(url))


# Options `--NAME-topic` of a command: its arguments are parsed by `topic_fields`.
TOPIC_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
_TOPIC_OPTION = re.compile(r"--([A-Za-z][A-Za-z0-9_]*)-topic(?:=(.*))?", re.DOTALL)


def topic_fields(context: typer.Context) -> dict[str, str]:
    """Fields of a control message from options such as `--users-topic users_b`.

    The names of sources are not known here; livejoin says which ones there are.
    """
    fields = {}
    arguments = iter(context.args)
    for argument in arguments:
        option = _TOPIC_OPTION.fullmatch(argument)
        if option is None:
            if not argument.startswith("-"):
                context.fail(f"Got unexpected extra argument: {argument}")
            options = [one for parameter in context.command.params for one in parameter.opts]
            close = nearest(argument, options)
            context.fail(
                f"No such option: {argument}" + (f". Did you mean {close}?" if close else "")
            )
        name, value = option.groups()
        if value is None:
            value = next(arguments, None)
        if value is None or value.startswith("--"):
            context.fail(f"Option --{name}-topic requires the name of a topic.")
        fields[f"{name}Topic"] = value
    return fields


def help_text(command: Callable[..., Any]) -> str:
    """Return a command's docstring as its help; indented examples keep their line breaks."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("    ") else text for text in paragraphs)
