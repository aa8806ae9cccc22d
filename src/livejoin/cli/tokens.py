"""The token commands: create, list and revoke access tokens, and sign in."""

import getpass
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from livejoin.cli.demo_settings import choose_settings
from livejoin.cli.options import Config, Output, Url, endpoint
from livejoin.cli.output import format_table, format_time, print_line
from livejoin.client.endpoint import DEFAULT_URL
from livejoin.core import start_position
from livejoin.core.names import Names
from livejoin.core.tokens import CONSOLE, EndedSessions, Role, Token
from livejoin.errors import SettingsError
from livejoin.runtime import running_demo

token = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="""Create, list and revoke tokens; Kafka stores only their hashes.

    The role viewer can read the tables, operator can also change what is live. Every table server
    with the same `name` applies a new or revoked token within a second. Except for sign-in, these
    commands need livejoin's settings, but no running livejoin; without any settings they use the
    running demo of this user, and say so.
    """,
)
_COLUMNS = ("id", "role", "label", "made", "expires", "state")


@token.command()
def make(
    role: Annotated[
        Role, typer.Option(help="viewer can read; operator can also change what is live.")
    ],
    label: Annotated[str | None, typer.Option(help="Who or what the token is for.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, such as 12h or 30d; unlimited by default.")
    ] = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Create a token and print it; it cannot be shown again.

        livejoin token make --role viewer --label "wall display" --expires 30d

    Commands take it from the environment variable LIVEJOIN_TOKEN, programs send it in the header
    `Authorization: Bearer`, and people enter it on the page to sign in.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - slow to import

    lifetime_s = start_position.age_seconds(expires) if expires is not None else None
    if expires is not None and not lifetime_s:
        raise SettingsError(f"--expires: expected a duration such as 12h or 30d, got {expires!r}")
    kafka, names, audit = _open_topics(config)
    secret = access_topics.create_token(kafka, names, role, label or "", lifetime_s)
    created = access_topics.read_tokens(kafka, names)[secret.split("_")[1]]
    audit(f"make token {created.id}", after=f"{created.role} {created.label}".strip())
    if output == "json":
        print(json.dumps({**_token_row(created), "token": secret}))
    else:
        print(secret)


@token.command("list")
def list_tokens(config: Config = None, output: Output = "table") -> None:
    """List the tokens: id, role, label, expiry and state.

    A token is valid, revoked, expired or unsupported (made by a newer livejoin). The tokens
    themselves cannot be shown: only their hashes are stored. The last line, `console`, is not a
    token: it stands for the sessions that started from a URL printed by `livejoin run`, `serve` or
    `demo`.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above

    kafka, names, _ = _open_topics(config)
    tokens = sorted(access_topics.read_tokens(kafka, names).values(), key=lambda t: t.made_at)
    ended = access_topics.read_ended_sessions(kafka, names)
    as_json = output == "json"
    write_time = _json_time if as_json else _time_text
    rows = [*(_token_row(entry, write_time) for entry in tokens), _console_row(ended, write_time)]
    if as_json:
        print(json.dumps({"tokens": rows}))
        return
    for line in format_table(rows, _COLUMNS):
        print(line)


@token.command()
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="Token id, from `livejoin token list`.")
    ],
    config: Config = None,
    output: Output = "table",
) -> None:
    """Revoke a token permanently, with its sessions and sockets.

    Every table server closes them within 5 s. The id `console` ends all sessions that started from
    a printed URL and invalidates the codes printed so far; codes printed later are valid.
    """
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above

    kafka, names, audit = _open_topics(config)
    if token_id == CONSOLE:
        access_topics.end_sessions(kafka, names, CONSOLE, time.time())
        audit("revoke console", before="sessions valid", after="sessions ended")
        row = _console_row(access_topics.read_ended_sessions(kafka, names))
        print(json.dumps(row) if output == "json" else f"revoked {CONSOLE}")
        return
    existing = access_topics.read_tokens(kafka, names).get(token_id)
    revoked = access_topics.revoke(kafka, names, token_id)
    before = existing.state(time.time()) if existing else ""
    audit(f"revoke token {token_id}", before=before, after="revoked")
    print(json.dumps(_token_row(revoked)) if output == "json" else f"revoked {token_id}")


@token.command("sign-in")
def sign_in(url: Url = DEFAULT_URL, output: Output = "table") -> None:
    """Print a URL that signs a browser in, once.

    It is valid for 5 minutes and has the rights of the token that this command uses: the one in
    LIVEJOIN_TOKEN, or the one that `livejoin demo` stored for its own URL. Without a URL, it is for
    the running demo, if there is one.
    """
    demo = running_demo.find() if url == DEFAULT_URL else None
    if demo is not None and demo.url != url:
        url = demo.url
        print_line(f"livejoin: this is for the running demo at {url}", to_stderr=True)
    code = endpoint(url).call("api/v1/code", {})["code"]
    sign_in_url = f"{url.rstrip('/')}/#code={code}"
    print_line(json.dumps({"url": sign_in_url}) if output == "json" else sign_in_url)


def _open_topics(config: Any) -> tuple[Any, Names, Callable[..., None]]:
    """Connect, create the topics if missing, and return Kafka, their names and an audit writer."""
    from livejoin.kafka.cluster import Kafka  # noqa: PLC0415 - as above
    from livejoin.tables.auth import access_topics  # noqa: PLC0415 - as above
    from livejoin.tables.auth.audit import audit_row  # noqa: PLC0415 - as above

    source = choose_settings(config)
    if source.is_demo:  # on standard error: the token is all of standard output
        print_line(f"livejoin: settings are {source.source}", to_stderr=True)
    chosen = source.load()
    kafka, names = Kafka(chosen.kafka, chosen.own_topics.rules), Names(chosen.name)
    kafka.wait_until_reachable(10)
    access_topics.create_topics(kafka, names)

    def audit(action: str, **details: str) -> None:
        user = f"{getpass.getuser()} (command line)"
        row = audit_row(user, "", "", action, "done", **details)
        access_topics.append_audit_row(kafka, names, row)

    return kafka, names, audit


def _json_time(timestamp_s: float) -> str:
    return datetime.fromtimestamp(timestamp_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time_text(timestamp_s: float) -> str:
    return format_time(1000 * timestamp_s)


def _console_row(
    ended: EndedSessions, write_time: Callable[[float], str] = _json_time
) -> dict[str, Any]:
    """Return the row of the console, an identity without a token."""
    before = ended.ended_before(CONSOLE)
    return {
        "id": CONSOLE,
        "role": "operator",
        "label": "URLs printed at startup",
        "made": None,
        "expires": None,
        "state": f"revoked before {write_time(int(before))}" if before else "valid",
    }


def _token_row(entry: Token, write_time: Callable[[float], str] = _json_time) -> dict[str, Any]:
    expires = entry.expires_at
    return {
        "id": entry.id,
        "role": entry.role,
        "label": entry.label,
        "made": write_time(entry.made_at),
        "expires": None if expires is None else write_time(expires),
        "state": entry.state(time.time()),
    }
