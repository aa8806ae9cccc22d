"""`livejoin send` and `preview` over real decisions: what they print of an accepted message."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from browser.staged import Stage, staged
from livejoin.cli import main
from livejoin.core import control_messages, spec

pytestmark = pytest.mark.usefixtures("no_settings")
WARNING = 'unknown field "start"'
MESSAGE = ("--join", "inner", "--start", "1h")


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A livejoin that does not know one of the fields that the command line sends."""
    known = tuple(name for name in control_messages.known_fields(spec.DEFAULT) if name != "start")
    monkeypatch.setattr(control_messages, "known_fields", lambda _: known)
    with staged(1) as stage:
        yield stage


def _run(stage: Stage, *arguments: str) -> str:
    done = CliRunner().invoke(main.cli, [*arguments, "--url", stage.url])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_send_prints_what_of_the_message_was_ignored(older: Stage) -> None:
    first, *others = _run(older, "send", *MESSAGE).splitlines()
    assert first.startswith("live: generation 2")
    assert others == [f"warning: {WARNING}; it is ignored"]


def test_the_json_of_send_has_the_warnings(older: Stage) -> None:
    output = _run(older, "send", *MESSAGE, "--output", "json")
    assert json.loads(output)["warnings"] == [WARNING]


def test_send_warns_of_nothing_that_is_known() -> None:
    with staged(1) as stage:
        assert _run(stage, "send", "--join", "inner").count("\n") == 1


def test_preview_prints_what_would_be_ignored(older: Stage) -> None:
    assert _run(older, "preview", *MESSAGE).splitlines()[-1] == f"ignored      {WARNING}"
    assert "ignored" not in _run(older, "preview", "--join", "inner")


def test_preview_of_a_rollback_names_what_is_live_now_and_afterwards() -> None:
    with staged(1) as stage:
        _run(stage, "send", "--join", "inner")
        before = stage.state
        lines = _run(stage, "preview", "--rollback").splitlines()
        first, second = str(before.standby), str(before.live)
        assert f"live         {second} now, {first} afterwards" in lines
        assert f"standby      {second} afterwards" in lines
        assert stage.state.live == before.live, "a preview changes nothing"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--jion", "inner"], "No such option: --jion. Did you mean --join?"),
        (["users_b"], "Got unexpected extra argument: users_b"),
        (["--users-topic"], "Option --users-topic requires the name of a topic."),
        (["--users-topic", "--join", "left"], "Option --users-topic requires the name"),
    ],
)
@pytest.mark.parametrize("command", ["send", "preview"])
def test_an_option_that_does_not_exist_is_wrong_usage(
    command: str, arguments: list[str], error: str
) -> None:
    done = CliRunner().invoke(main.cli, [command, *arguments, "--url", "http://127.0.0.1:1/"])
    assert done.exit_code == 2
    assert error in done.stderr


def test_a_topic_of_any_source_can_be_named(older: Stage) -> None:
    output = _run(older, "send", "--join", "inner", "--orders-topic=o", "--pets-topic", "p")
    assert 'warning: unknown field "ordersTopic"' in output
    assert 'warning: unknown field "petsTopic"' in output
