"""Options that several commands share, and how a command's docstring becomes its help."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Config = Annotated[Path | None, typer.Option("-c", "--config", help="YAML file with settings.")]
Output = Annotated[
    Literal["table", "json"],
    typer.Option("--output", help="table is for people, json for programs."),
]
Port = Annotated[int | None, typer.Option("--port", help="Port of the page; 0 takes any free one.")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Ask nobody for a token: whoever can reach it may do all."),
]
Url = Annotated[str, typer.Option(envvar="LIVEJOIN_URL", help="Where livejoin serves.")]
UsersTopic = Annotated[str | None, typer.Option(help="Topic of the users.")]
AccountsTopic = Annotated[str | None, typer.Option(help="Topic of the accounts.")]
JoinType = Annotated[str | None, typer.Option(help="left, inner or left_outer.")]
Start = Annotated[
    str | None, typer.Option(help="earliest, latest, a time or an age; forces a new build.")
]
Expect = Annotated[int | None, typer.Option(help="Only if this generation is live.")]
MessageId = Annotated[str | None, typer.Option("--id", help="Sent twice, it counts once.")]


def help_text(command: Callable[..., Any]) -> str:
    """A command's docstring for the terminal: indented examples keep their lines."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{one}" if one.startswith("    ") else one for one in paragraphs)
