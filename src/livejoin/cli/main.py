"""The command line: what starts livejoin, and all commands together; failures as exit codes."""

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer

from livejoin import __version__, redaction
from livejoin.cli import config as cli_settings
from livejoin.cli import control, doctor, status, tables, tokens, topics
from livejoin.cli.options import Config, Insecure, Port, help_text
from livejoin.cli.text import print_line
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError
from livejoin.runtime import processes
from livejoin.runtime.terminal import escape_unprintable

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(*, wanted: bool) -> None:
    if wanted:
        print(f"livejoin {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Join Kafka topics live on Spark, and watch the result as tables whose names never change."""


@cli.command("demo")
def demo_command(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the broker's data and the checkpoints; delete it to start afresh."
            "  [default: ~/.local/state/livejoin/demo]"
        ),
    ] = None,
    port: Port = 10000,
    *,
    insecure: Insecure = False,
) -> None:
    """Run everything on this machine, to try it.

    It starts a Kafka broker on a free loopback port, sample producers, Spark and the page. The
    producers feed two pairs of topics; livejoin joins the first (`users_a`, `accounts_a`) and can
    be asked for the other. Ctrl-C stops it; the data stays, and the next start goes on with it.

    The address that it prints signs a browser in, once. The commands in another terminal use a
    token that it keeps for this user, in `~/.config/livejoin/credentials.json`.
    """
    from livejoin import demo  # noqa: PLC0415 - Spark and Arrow take a second to import

    folder = (data or processes.state_folder() / "demo").absolute()
    raise typer.Exit(demo.run(folder, port or 0, insecure=insecure))


@cli.command()
def run(config: Config = None, port: Port = None, *, insecure: Insecure = False) -> None:
    """Join topics of your own Kafka, and serve the tables.

    Which topics and how is said by the settings. It prints the page's address on standard output
    and log lines on standard error. If Kafka or a topic is not there it waits, says so in
    `orchestrator_status` and on `/readyz`, and tries again.

    Started a second time under the same `name`, it stands by: it serves the same tables, and leads
    when the first one dies (about 10 s after a kill, at once after a clean stop).

    At the very first start it makes a token for each role and prints them, once; see `livejoin
    token`. On a terminal the page's address signs a browser in, once, within 5 minutes.
    """
    from livejoin import app  # noqa: PLC0415 - as above
    from livejoin.config import settings  # noqa: PLC0415 - as above

    chosen = settings.load(config, **_http_overrides(port, insecure=insecure))
    raise typer.Exit(app.run(chosen, _print_address))


@cli.command()
def serve(config: Config = None, port: Port = None, *, insecure: Insecure = False) -> None:
    """Serve the tables of a livejoin that runs elsewhere.

    It follows, over the same Kafka, the ledger of a `livejoin run` of the same `name`, and serves
    everything that it serves. It never leads, and needs no Java. Before there is a ledger it says
    so, on the console and on `/readyz`, and waits; while nobody leads it goes on, and says that its
    rows are stale.
    """
    from livejoin import serving  # noqa: PLC0415 - as above
    from livejoin.config import settings  # noqa: PLC0415 - as above
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above

    chosen = settings.load(config, **_http_overrides(port, insecure=insecure))
    ledger, kafka = Names(chosen.name).ledger, Kafka(chosen.kafka).address

    def announce(url: str, signing_in: str) -> None:
        _print_address(url, signing_in)
        print(f"livejoin: following {ledger} at {kafka}", flush=True)

    raise typer.Exit(serving.run(chosen, announce))


def _http_overrides(port: int | None, *, insecure: bool) -> dict[str, Any]:
    """What the command line says over the settings."""
    given = {} if port is None else {"port": port}
    given |= {"insecure": True} if insecure else {}
    return {"http": given} if given else {}


def _print_address(url: str, signing_in: str) -> None:
    """Say where the page is; the code that signs in is for a person, and not for a log."""
    print(f"livejoin: the page is at {signing_in if sys.stdout.isatty() else url}", flush=True)
    if url == signing_in:
        print("livejoin: INSECURE, whoever can reach it may read and change everything", flush=True)


for _command in (
    status.status,
    tables.tables,
    tables.show,
    topics.topics,
    topics.peek,
    control.send,
    control.preview,
    control.rollback,
    control.schema,
    cli_settings.config,
    doctor.doctor,
):
    cli.command(help=help_text(_command))(_command)
cli.add_typer(tokens.token, name="token")


def _drop_py4j(record: logging.LogRecord) -> bool:
    """py4j logs a trace to the root logger whenever the JVM is gone; the status says it better."""
    return "py4j" not in record.pathname


def _redact_line(_logger: Any, _method: str, line: Any) -> str:
    """Take out of a log line what must not be shown, wherever it came from."""
    return redaction.redact(str(line))


def _escape_values(_logger: Any, _method: str, event: Any) -> Any:
    """Before colours are added: what others have written must not look like ours."""
    return {
        name: escape_unprintable(value, keep="\n" if name == "exception" else "")
        if isinstance(value, str)
        else value
        for name, value in event.items()
    }


class _EscapingFormatter(logging.Formatter):
    """The same for lines of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        """Keep the lines of a trace."""
        return escape_unprintable(super().format(record), keep="\n")


def configure_logging() -> None:
    """Log lines for people, on standard error."""
    handler = logging.StreamHandler()
    handler.addFilter(_drop_py4j)
    handler.setFormatter(_EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            _escape_values,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ,
                exception_formatter=structlog.dev.plain_traceback,
            ),
            _redact_line,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main() -> None:
    """Run the command line and exit with its code."""
    configure_logging()
    try:
        cli()
    except LivejoinError as error:
        print_line(f"livejoin: {error.message}", aside=True)
        if error.hint:
            print_line(f"  {error.hint}", aside=True)
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
