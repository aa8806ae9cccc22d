"""`docs/cli.md` is generated from the help texts; run this file to regenerate it."""

import inspect
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from livejoin.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
INTRODUCTION = """\
# Commands

<!-- Generated from the help texts by `python tests/docs/test_cli_page.py`. -->

In a clone the command is `.venv/bin/livejoin`, after `make setup`; elsewhere it is installed with
[the wheel](deployment.md#the-wheel). Every command has `--help`; `livejoin --version` prints the
version, and `livejoin --install-completion` completes commands and options in new terminals
(`--show-completion` prints what it would install). Everything that commands request from a running
livejoin is also available [over HTTP](http.md). Settings are described in
[settings.md](settings.md), control messages in [control-messages.md](control-messages.md).
"""
CODES = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | success; for `demo` and `run` also a stop by SIGTERM |
| 1 | failure; the last lines on standard error say what failed, why, and what to do |
| 2 | wrong usage, or a wrong setting |
| 130 | interrupted by Ctrl-C |

Progress is printed on standard error, and only on a terminal. Tables escape control characters in
data, and show a null as –. Times are UTC, written as `2026-01-31T12:00:00.000Z`, and positions in
a topic as partition/offset, `0/12`. States and levels have colours on a terminal, unless `NO_COLOR`
is set; JSON and CSV have none.
"""


def page() -> str:
    """Return the whole page."""
    parts = [_command(name, command) for name, command in _commands().items()]
    return "\n".join([INTRODUCTION, *parts, CODES])


def _commands() -> dict[str, Any]:
    """Return all commands by full name; a group comes before its commands."""
    found: dict[str, Any] = {}
    commands: dict[str, Any] = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        found[name] = command
        for inner, subcommand in getattr(command, "commands", {}).items():
            found[f"{name} {inner}"] = subcommand
    return found


def _command(name: str, command: Any) -> str:
    arguments = [
        parameter for parameter in command.params if parameter.param_type_name == "argument"
    ]
    options = [parameter for parameter in command.params if parameter not in arguments]
    if command.callback is None:  # a group
        return f"## livejoin {name}\n\n{_text(command)}\n"
    usage = " ".join([f"livejoin {name}", *(_named(parameter) for parameter in arguments)])
    text = _text(command)
    rows = [
        f"| `{_named(parameter)}` | required | {_escaped(parameter.help)} |"
        for parameter in arguments
    ]
    kinds = get_type_hints(command.callback)
    rows += [_option(parameter, kinds[parameter.name]) for parameter in options]
    table = ["| option | default | meaning |", "|---|---|---|", *rows]
    return "\n".join([f"## {usage}", "", text, "", *table, ""])


def _text(command: Any) -> str:
    return inspect.cleandoc(command.callback.__doc__ if command.callback else command.help)


def _named(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(option: Any, kind: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    names = names if option.is_flag else f"{names[:-1]} {_value(kind)}`"
    text, _, shown_default = option.help.partition("  [default: ")
    default = shown_default.rstrip("]") or _default(option)
    variable = f", or the environment variable `{option.envvar}`" if option.envvar else ""
    return f"| {names} | {default}{variable} | {_escaped(text)} |"


def _value(kind: Any) -> str:
    """Return the metavar of an option, from its annotation."""
    if get_origin(kind) is Literal:
        return "\\|".join(get_args(kind))
    inner = [annotation for annotation in get_args(kind) or (kind,) if annotation is not type(None)]
    return {int: "N", float: "N", Path: "PATH"}.get(inner[0], "TEXT")


def _default(option: Any) -> str:
    if option.is_flag:
        words: list[str] = option.opts if option.default else option.secondary_opts or ["no"]
        return words[0].lstrip("-")
    return "" if option.default is None else f"`{option.default}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "regenerate it: python tests/docs/test_cli_page.py"


def test_every_command_and_option_has_help() -> None:
    for name, command in _commands().items():
        assert command.help, name
        first = _text(command).splitlines()[0]
        assert len(first) <= 68, f"the list of commands truncates the summary of {name}"
        assert first.endswith("."), name
        for parameter in command.params:
            assert parameter.help, (name, parameter.name)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
