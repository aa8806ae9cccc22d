"""Entry point of the command line: demo, run, serve; errors as exit codes."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from livejoin import __version__
from livejoin.cli import (
    control,
    doctor,
    effective_settings,
    infer_sources,
    peek,
    reading,
    tokens,
    topics_plan,
)
from livejoin.cli.console_log import configure_logging
from livejoin.cli.options import TOPIC_OPTIONS, Config, Insecure, Port, help_text
from livejoin.cli.output import print_line
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError
from livejoin.runtime import processes

cli = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(*, requested: bool) -> None:
    if requested:
        print(f"livejoin {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Join Kafka topics live on Spark, and serve the result as tables with stable names."""


@cli.command("demo")
def demo_command(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the broker's data and the checkpoints; delete it to start over."
            "  [default: ~/.local/state/livejoin/demo]"
        ),
    ] = None,
    port: Port = 10000,
    example: Annotated[
        Literal["users", "orders"],
        typer.Option(help="What is joined: users with accounts, or orders with two lookups."),
    ] = "users",
    *,
    insecure: Insecure = False,
) -> None:
    """Run a demo on this machine: broker, sample data, Spark, page.

    Starts a Kafka broker on a free loopback port, sample producers, Spark and the page. The
    producers write to two sets of topics; livejoin joins the first (`users_a`, `accounts_a`) and
    can be switched to the other. `--example orders` joins three declared sources with nested
    fields, decimals and times. Ctrl-C stops it; the data is kept for the next start.

    The printed URL signs a browser in, once. Commands in another terminal use a token that is
    stored for this user in `~/.config/livejoin/credentials.json`.
    """
    from livejoin import demo, demo_samples  # noqa: PLC0415 - Spark and Arrow take a second

    default = "demo" if example == "users" else f"demo-{example}"
    folder = (data or processes.state_folder() / default).absolute()
    chosen = demo_samples.EXAMPLES[example]
    raise typer.Exit(demo.run(folder, port or 0, chosen, insecure=insecure))


@cli.command()
def run(config: Config = None, port: Port = None, *, insecure: Insecure = False) -> None:
    """Join topics of your own Kafka cluster and serve the tables.

    The settings name the topics and the join. The page's URL is printed on standard output, log
    lines go to standard error. If Kafka or a topic is unavailable, livejoin says so in
    `orchestrator_status` and on `/readyz`, and retries.

    A second process with the same `name` serves the same tables, and takes over as leader when the
    first one stops (about 10 s after a kill, at once after a clean stop).

    The very first start creates a token for each role and prints it, once; see `livejoin token`.
    On a terminal, the printed URL signs a browser in, once, within 5 minutes.
    """
    from livejoin import orchestrator  # noqa: PLC0415 - as above
    from livejoin.config import settings  # noqa: PLC0415 - as above

    chosen = settings.load(config, **_http_overrides(port, insecure=insecure))
    raise typer.Exit(orchestrator.run(chosen, _print_address))


@cli.command()
def serve(config: Config = None, port: Port = None, *, insecure: Insecure = False) -> None:
    """Serve the tables of a livejoin that runs elsewhere.

    Follows the ledger of a `livejoin run` with the same `name` on the same Kafka cluster, and
    serves everything that it serves. It never leads and needs no Java. Until there is a ledger it
    waits, and says so on the console and on `/readyz`; while there is no leader it keeps serving,
    and reports its rows as stale.
    """
    from livejoin import serving  # noqa: PLC0415 - as above
    from livejoin.config import settings  # noqa: PLC0415 - as above
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above

    chosen = settings.load(config, **_http_overrides(port, insecure=insecure))
    ledger, kafka = Names(chosen.name).ledger, Kafka(chosen.kafka).address

    def announce(url: str, sign_in_url: str) -> None:
        _print_address(url, sign_in_url)
        print(f"livejoin: following {ledger} at {kafka}", flush=True)

    raise typer.Exit(serving.run(chosen, announce))


def _http_overrides(port: int | None, *, insecure: bool) -> dict[str, Any]:
    """Return the settings that command line options override."""
    http = {} if port is None else {"port": port}
    http |= {"insecure": True} if insecure else {}
    return {"http": http} if http else {}


def _print_address(url: str, sign_in_url: str) -> None:
    """Print the page's URL; the one that signs in goes to a terminal, never to a log."""
    print(f"livejoin: the page is at {sign_in_url if sys.stdout.isatty() else url}", flush=True)
    if url == sign_in_url:
        print("livejoin: INSECURE, anyone who can connect has full access", flush=True)


for _command in (
    reading.status,
    reading.tables,
    reading.show,
    peek.peek,
    control.send,
    control.preview,
    control.rollback,
    control.schema,
    effective_settings.config,
    doctor.doctor,
):
    _settings = TOPIC_OPTIONS if _command in (control.send, control.preview) else None
    cli.command(help=help_text(_command), context_settings=_settings)(_command)
topics = typer.Typer(add_completion=False, rich_markup_mode=None)
topics.callback(invoke_without_command=True, help=help_text(reading.topics))(reading.topics)
topics.command(help=help_text(topics_plan.plan))(topics_plan.plan)
cli.add_typer(topics, name="topics")
cli.add_typer(infer_sources.sources, name="sources")
cli.add_typer(tokens.token, name="token")


def main() -> None:
    """Run the command line and exit with its exit code."""
    configure_logging()
    try:
        cli()
    except LivejoinError as error:
        print_line(f"livejoin: {error.message}", to_stderr=True)
        if error.hint:
            print_line(f"  {error.hint}", to_stderr=True)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
