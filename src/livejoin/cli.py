"""The command line. Parses, prints and maps failures to exit codes; all else is done elsewhere."""

import json
import logging
import os
import platform
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
import typer

from livejoin import __version__, asking, processes
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, SettingsError

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Config = Annotated[Path | None, typer.Option("-c", "--config", help="YAML file with settings.")]
Output = Annotated[Literal["table", "json"], typer.Option("--output", help="How to print.")]
Port = Annotated[int | None, typer.Option("--port", help="Port of the page; 0 takes any free one.")]
Url = Annotated[str, typer.Option(envvar="LIVEJOIN_URL", help="Where livejoin serves.")]
UsersTopic = Annotated[str | None, typer.Option(help="Topic of the users.")]
AccountsTopic = Annotated[str | None, typer.Option(help="Topic of the accounts.")]
JoinType = Annotated[str | None, typer.Option(help="left, inner or left_outer.")]
Start = Annotated[
    str | None, typer.Option(help="earliest, latest, a time or an age; forces a new build.")
]
Expect = Annotated[int | None, typer.Option(help="Only if this generation is live.")]
MessageId = Annotated[str | None, typer.Option("--id", help="Sent twice, it counts once.")]
_REACH_S = 5


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
        Path | None, typer.Option(help="Folder for the broker's data and the checkpoints.")
    ] = None,
    port: Port = 10000,
) -> None:
    """Run everything on this machine: a Kafka broker, sample producers, Spark, the page."""
    from livejoin import demo  # noqa: PLC0415 - Spark and Arrow take a second to import

    raise typer.Exit(demo.run((data or processes.state_folder() / "demo").absolute(), port or 0))


@cli.command()
def run(config: Config = None, port: Port = None) -> None:
    """Join the topics of your own Kafka, as the settings say, and serve the tables."""
    from livejoin import app, settings  # noqa: PLC0415 - as above

    overrides: dict[str, Any] = {} if port is None else {"http": {"port": port}}
    chosen = settings.load(config, **overrides)
    raise typer.Exit(
        app.run(chosen, lambda url: print(f"livejoin: the page is at {url}", flush=True))
    )


@cli.command()
def serve(config: Config = None, port: Port = None) -> None:
    """Serve the tables of a livejoin that runs elsewhere over the same Kafka; needs no Java."""
    from livejoin import serving, settings  # noqa: PLC0415 - as above

    overrides: dict[str, Any] = {} if port is None else {"http": {"port": port}}
    chosen = settings.load(config, **overrides)
    ledger, kafka = Names(chosen.name).ledger, chosen.kafka["bootstrap.servers"]

    def announce(url: str) -> None:
        print(f"livejoin: the page is at {url}", flush=True)
        print(f"livejoin: following {ledger} at {kafka}", flush=True)

    raise typer.Exit(serving.run(chosen, announce))


@cli.command()
def status(url: Url = asking.DEFAULT_URL, output: Output = "table") -> None:
    """Say what is live, from which topics, and how many records were read."""
    answer = asking.get(url, "api/v1/status", "sources")
    if output == "json":
        print(json.dumps(answer))
        return
    sources = answer.pop("sources", {})
    for name, value in answer.items():
        print(f"{name:<14} {'' if value is None else value}")
    for source, counts in sources.items():
        print(f"{source:<14} " + ", ".join(f"{count} {what}" for what, count in counts.items()))


@cli.command()
def send(  # noqa: PLR0913, PLR0917 - one option per field of a message
    users_topic: UsersTopic = None,
    accounts_topic: AccountsTopic = None,
    join: JoinType = None,
    start: Start = None,
    expect: Expect = None,
    message_id: MessageId = None,
    *,
    wait: Annotated[bool, typer.Option(help="Wait until the swap is done.")] = True,
    limit: Annotated[float, typer.Option(help="How many seconds to wait.")] = 600,
    url: Url = asking.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Ask for other topics or another join. What is left out stays as it is."""
    message = _message(users_topic, accounts_topic, join, start, expect, message_id)
    answer = asking.post(url, "api/v1/control", message)
    number = answer["generation"]
    if wait and number is not None and answer["outcome"] in ("accepted", "building"):
        row = asking.follow(url, number, limit)
        answer |= {"outcome": row["state"], "reason": row["message"]}
        answer["tookSeconds"] = row["catchUpSeconds"]
    _print_outcome(answer, output)


@cli.command()
def rollback(
    expect: Expect = None,
    message_id: MessageId = None,
    url: Url = asking.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Go back to the generation that stands by, at once."""
    message = _message(None, None, None, None, expect, message_id)
    _print_outcome(asking.post(url, "api/v1/rollback", message), output)


@cli.command()
def preview(  # noqa: PLR0913 - one option per field of a message
    users_topic: UsersTopic = None,
    accounts_topic: AccountsTopic = None,
    join: JoinType = None,
    start: Start = None,
    expect: Expect = None,
    *,
    rollback: Annotated[bool, typer.Option("--rollback", help="Preview a rollback.")] = False,
    url: Url = asking.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Say what a request would build, read, keep and stop, without doing it."""
    message = _message(users_topic, accounts_topic, join, start, expect, None)
    if rollback:
        message["action"] = "rollback"
    plan = asking.post(url, "api/v1/preview", message)
    if output == "json":
        print(json.dumps(plan))
    else:
        for line in _plan_lines(plan):
            print(line)
    if plan["outcome"] == "rejected":
        raise typer.Exit(1)


def _message(*values: Any) -> dict[str, Any]:
    names = ("usersTopic", "accountsTopic", "joinType", "start", "expectedGeneration", "id")
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _print_outcome(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        print(json.dumps(answer))
    else:
        number = answer["generation"]
        of = f": generation {number}" if number is not None else ""
        took = answer.get("tookSeconds")
        after = f" after {took:.1f} s" if took is not None else ""
        why = f" ({answer['reason']})" if answer["reason"] else ""
        print(f"{answer['outcome']}{of}{after}{why}")
    if answer["outcome"] in ("failed", "superseded", "cancelled"):
        raise typer.Exit(1)


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    """A preview for people."""
    if plan["outcome"] == "rejected":
        return [f"would be rejected: {plan['reason']}"]
    slots, later = plan["slots"], plan["afterwards"]
    lines = [f"{'outcome':<12} {plan['outcome']}"]
    lines += [f"{'builds':<12} {plan['build']}"] if plan["build"] else []
    for name, topic in plan["topics"].items():
        lines.append(
            f"{'reads':<12} {name}: {topic['records']} records, {topic['partitions']} partitions"
        )
    lines += [
        f"{'task slots':<12} {slots['needed']} more, {slots['held']} of {slots['total']} are held",
        f"{'live':<12} {plan['now']['live']} now, {later['live']} afterwards",
        f"{'stands by':<12} {later['standby'] or 'nothing'} afterwards",
    ]
    stopped = ", ".join(f"generation {number}" for number in plan["stopped"])
    return [*lines, f"{'stops':<12} {stopped or 'nothing'}"]


@cli.command()
def doctor(config: Config = None, output: Output = "table") -> None:
    """Check this machine and the settings: Java, jars, Kafka, topics."""
    checks = list(_checks(config))
    if output == "json":
        print(json.dumps([{"check": name, "ok": ok, "found": found} for name, ok, found in checks]))
    else:
        for name, ok, found in checks:
            print(f"{'ok ' if ok else 'BAD'}  {name:<10} {found}")
    if not all(ok for _, ok, _ in checks):
        raise typer.Exit(1)


def _checks(config: Path | None) -> Any:
    """Yield each check's name, whether it passed, and what was found."""
    from livejoin import jars, settings  # noqa: PLC0415 - as above
    from livejoin.kafka import Kafka, wait_until_reachable  # noqa: PLC0415 - as above

    system = platform.system()
    known = system in ("Linux", "Darwin")
    yield "system", known, system if known else f"{system}: run livejoin under WSL2"
    yield _check("java", processes.java)
    missing = [jar.coordinate for jar in jars.locked() if not jar.file.exists()]
    yield (
        "jars",
        True,
        f"{len(missing)} to be downloaded at the first start" if missing else "all in the cache",
    )
    try:
        chosen = settings.load(config)
    except SettingsError as error:
        yield "settings", False, str(error)
        return
    yield "settings", True, f"{config or 'defaults and environment'}"
    kafka = Kafka(chosen.kafka)

    def reach() -> str:
        wait_until_reachable(kafka, _REACH_S)
        return kafka.address

    reached = _check("kafka", reach)
    yield reached
    if reached[1]:
        topics = (chosen.topics.users, chosen.topics.accounts)
        absent = [name for name in topics if name not in kafka.describe(topics)]
        found = (
            f"missing: {', '.join(absent)}; create them, or name others in topics.*"
            if absent
            else " and ".join(topics)
        )
        yield "topics", not absent, found


def _check(name: str, work: Any) -> tuple[str, bool, str]:
    try:
        return name, True, str(work())
    except LivejoinError as error:
        return name, False, str(error)


def _quiet_py4j(record: logging.LogRecord) -> bool:
    """py4j logs a trace to the root logger whenever the JVM is gone; the status says it better."""
    return "py4j" not in record.pathname


def main() -> None:
    """Run the command line and exit with its code."""
    handler = logging.StreamHandler()
    handler.addFilter(_quiet_py4j)
    logging.basicConfig(
        level=logging.WARNING, handlers=[handler], format="%(levelname)s %(name)s: %(message)s"
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ
            ),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        cli()
    except LivejoinError as error:
        print(
            f"livejoin: {error.message}" + (f"\n  {error.hint}" if error.hint else ""),
            file=sys.stderr,
        )
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
