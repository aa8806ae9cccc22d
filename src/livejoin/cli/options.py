"""What several commands take: options, the livejoin that --url names, help texts of docstrings."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from livejoin.client import credentials
from livejoin.client.endpoint import ClientProgram, Endpoint

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
UsersTopic = Annotated[str | None, typer.Option(help="Topic to read users from.")]
AccountsTopic = Annotated[str | None, typer.Option(help="Topic to read accounts from.")]
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


def help_text(command: Callable[..., Any]) -> str:
    """Return a command's docstring as its help; indented examples keep their line breaks."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("    ") else text for text in paragraphs)
