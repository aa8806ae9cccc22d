"""The command `doctor`: prints what the checks of `livejoin.doctor` find."""

import json
from typing import Annotated, Any

import typer

from livejoin import redaction
from livejoin.cli.demo_settings import choose_settings
from livejoin.cli.options import Config, Output
from livejoin.cli.output import print_line

_INDENT = " " * 24  # below the third column


def doctor(
    config: Config = None,
    output: Output = "table",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
) -> None:
    """Check everything that a start needs, in its order.

    First this machine: Java, jars, settings, port, folders. Then each Kafka cluster of the
    settings: names, connections, login, advertised addresses, limits, clock, rights, topics; at
    last Spark's task slots. Each line says ok, warning, BAD or skipped, and what to do. Exits with
    code 1 if anything is BAD.

    Under the prefix of livejoin's own topics it creates two topics (`<name>.changelog.0`,
    `<name>.feed.0`) and deletes them again: only that shows whether the brokers allow it. Unless
    a livejoin of this name runs, it also becomes the producer of the ledger for a moment.

    Without a settings file and settings in the environment, it checks the running demo, if there
    is one.
    """
    from livejoin.doctor import diagnosis  # noqa: PLC0415 - Arrow takes a second to import

    chosen = choose_settings(config)
    findings = diagnosis.diagnose(chosen.load, chosen.source, is_demo=chosen.is_demo)
    is_bad, rows, heading = False, [], ""
    for finding in findings:
        is_bad = is_bad or finding.severity == "BAD"
        found, advice = redaction.redact(finding.found), redaction.redact(finding.advice)
        if output == "json" or as_json:
            row: dict[str, Any] = {"cluster": finding.cluster, "check": finding.check}
            row |= {"ok": finding.severity != "BAD", "severity": finding.severity}
            rows.append({**row, "found": found, "advice": advice})
            continue
        if finding.cluster != heading:
            heading = finding.cluster
            print_line("")
            if heading:
                print_line(heading)
        print_line(f"{finding.severity:<7}  {finding.check:<14} {found}")
        if advice:
            print_line(f"{_INDENT}{advice}")
    if output == "json" or as_json:
        print(json.dumps(rows))
    if is_bad:
        raise typer.Exit(1)
