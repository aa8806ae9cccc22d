"""The commands for tokens: who may look, and who may change what is live."""

import getpass
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from livejoin.cli.options import Config, Output, Url
from livejoin.cli.text import format_table, print_line
from livejoin.client import http
from livejoin.core import start_position
from livejoin.core.ended_sessions import CONSOLE, EndedSessions
from livejoin.core.names import Names
from livejoin.core.tokens import Role, Token
from livejoin.errors import SettingsError

token = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Make, list and revoke tokens; they are kept in Kafka, as hashes.

    With the role viewer one may read the tables, with operator also change what is live. Every
    table server of the same `name` learns of a new or revoked token within a second. These
    commands need the settings of livejoin, and no running one, except sign-in.
    """,
)
_COLUMNS = ("id", "role", "label", "made", "expires", "state")


@token.command()
def make(
    role: Annotated[Role, typer.Option(help="viewer may read, operator may also change.")],
    label: Annotated[str | None, typer.Option(help="Whom or what it is for, for people.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="After how long it ends, like 12h or 30d. Never if left out.")
    ] = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Make a token, and print it: nobody can see it again.

        livejoin token make --role viewer --label "wall display" --expires 30d

    Give it to the commands in the environment variable LIVEJOIN_TOKEN, to programs for their
    header `Authorization: Bearer`, and to people for the page's sign-in.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - takes a while to import

    life_s = start_position.age_seconds(expires) if expires is not None else None
    if expires is not None and not life_s:
        raise SettingsError(f"--expires: expected an age such as 12h or 30d, got {expires!r}")
    kafka, names, note = _open_topics(config)
    text = access_topics.create_token(kafka, names, role, label or "", life_s)
    made = access_topics.read_tokens(kafka, names)[text.split("_")[1]]
    note(f"make token {made.id}", after=f"{made.role} {made.label}".strip())
    if output == "json":
        print(json.dumps({**_token_row(made), "token": text}))
    else:
        print(text)


@token.command("list")
def list_tokens(config: Config = None, output: Output = "table") -> None:
    """List the tokens: roles, labels, and whether they count.

    What a token reads cannot be shown: only its hash is kept. The last line, `console`, is no
    token: it stands for the sessions that began with an address printed by `livejoin run`, `serve`
    or `demo`.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above

    kafka, names, _ = _open_topics(config)
    found = sorted(access_topics.read_tokens(kafka, names).values(), key=lambda one: one.made_at)
    rows = [*map(_token_row, found), _console_row(access_topics.read_ended_sessions(kafka, names))]
    if output == "json":
        print(json.dumps({"tokens": rows}))
        return
    for line in format_table(rows, _COLUMNS):
        print(line)


@token.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id; `token list` has it.")],
    config: Config = None,
    output: Output = "table",
) -> None:
    """Revoke a token for good: its sessions and sockets end too.

    Every table server closes them within 5 s. With the id `console` all sessions end that began
    with a printed address, and the codes that have been printed; what is printed later counts.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above

    kafka, names, note = _open_topics(config)
    if token_id == CONSOLE:
        access_topics.end_sessions(kafka, names, CONSOLE, time.time())
        note("revoke console", before="its sessions counted", after="they have ended")
        row = _console_row(access_topics.read_ended_sessions(kafka, names))
        print(json.dumps(row) if output == "json" else f"revoked {CONSOLE}")
        return
    was = access_topics.read_tokens(kafka, names).get(token_id)
    revoked = access_topics.revoke(kafka, names, token_id)
    before = was.invalid_reason(time.time()) if was else ""
    note(f"revoke token {token_id}", before=before or "it counted", after="it was revoked")
    print(json.dumps(_token_row(revoked)) if output == "json" else f"revoked {token_id}")


@token.command("sign-in")
def sign_in(url: Url = http.DEFAULT_URL, output: Output = "table") -> None:
    """Print an address of the page that signs a browser in, once.

    It works for 5 minutes and with the rights of the token that this command uses: the one in
    LIVEJOIN_TOKEN, or the one that `livejoin demo` has kept for its own address.
    """
    code = http.post(url, "api/v1/code", {})["code"]
    address = f"{url.rstrip('/')}/#code={code}"
    print_line(json.dumps({"url": address}) if output == "json" else address)


def _open_topics(config: Any) -> tuple[Any, Names, Callable[..., None]]:
    """Kafka with the topics that are needed, and how to note what is done here."""
    from livejoin.config import settings  # noqa: PLC0415 - as above
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above
    from livejoin.tables.auth.audit import audit_row  # noqa: PLC0415 - as above

    chosen = settings.load(config)
    kafka, names = Kafka(chosen.kafka), Names(chosen.name)
    kafka.wait_until_reachable(10)
    access_topics.create_topics(kafka, names)

    def note(action: str, **more: str) -> None:
        who = f"{getpass.getuser()} (command line)"
        access_topics.append_audit_row(kafka, names, audit_row(who, "", "", action, "done", **more))

    return kafka, names, note


def _console_row(ended: EndedSessions) -> dict[str, Any]:
    """The identity without a token, as one of them."""
    before = ended.ended_before(CONSOLE)
    return {
        "id": CONSOLE,
        "role": "operator",
        "label": "addresses printed at the start",
        "made": None,
        "expires": None,
        "state": f"revoked before {_format_time(int(before))}" if before else "counts",
    }


def _token_row(one: Token) -> dict[str, Any]:
    return {
        "id": one.id,
        "role": one.role,
        "label": one.label,
        "made": _format_time(one.made_at),
        "expires": _format_time(one.expires_at),
        "state": one.invalid_reason(time.time()).removeprefix("it was ").removeprefix("it has ")
        or "counts",
    }


def _format_time(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
