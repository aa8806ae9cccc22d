"""Every example in `docs/control-messages.md` has the documented outcome and reason."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from core.histories import FIRST_READS, RULES, TOPICS, after
from livejoin.core import spec
from livejoin.core.control_messages import Action, Request, known_fields
from livejoin.core.control_records import parse_record
from livejoin.core.facts import CaughtUp, Fact, MessageReceived, SourcesResolved, TopicInfo
from livejoin.core.generation import Origin, Reading
from livejoin.core.spec import DEFAULT, Join
from livejoin.core.state import Outcome, Reply

PAGE = (Path(__file__).parents[2] / "docs" / "control-messages.md").read_text()
EXAMPLES = re.findall(r"```json\n(.*?)```\n\n→ ([a-z-]+)(?:: ([^\n]*))?\n", PAGE, re.DOTALL)

B = DEFAULT.choice("users_b", "accounts_b")
READINGS = {
    "users": Reading("users_b", "id", {0: 0}, {}),
    "accounts": Reading("accounts_b", "id", {0: 0}, {}),
}
HISTORY: list[Fact] = [
    *FIRST_READS,
    CaughtUp(1, 5),
    MessageReceived(Origin(0, 0.0, "kafka", ""), Request(B.topics), "", TOPICS),
    SourcesResolved(2, READINGS),
    CaughtUp(2, 5),
]


def _message_received(raw: str) -> MessageReceived:
    record = parse_record(0, 1, 5.0, "kafka", raw.encode(), RULES)
    names = record.request.topics.values() if record.request else ()
    topics: dict[str, TopicInfo | str] = {
        name: TOPICS.get(name, f'topic "{name}" does not exist') for name in names
    }
    return MessageReceived(record.origin, record.request, record.error, topics)


def test_every_block_is_an_example_with_an_outcome() -> None:
    assert len(EXAMPLES) == PAGE.count("```json") > 30


def test_the_examples_start_from_the_documented_state() -> None:
    state = after(HISTORY)
    assert state.live is not None
    assert state.standby is not None
    assert (state.live.number, state.live.choice) == (2, B)
    assert (state.standby.number, state.standby.choice) == (1, DEFAULT.choice("users", "accounts"))
    assert all(f"`{topic}`" in PAGE for topic in TOPICS)


@pytest.mark.parametrize(("raw", "outcome", "reason"), EXAMPLES, ids=[one[0] for one in EXAMPLES])
def test_an_example_has_its_outcome(raw: str, outcome: str, reason: str) -> None:
    fact = _message_received(raw)
    replies = [item for item in after([*HISTORY, fact]).outbox if isinstance(item, Reply)]
    (reply,) = [item for item in replies if item.origin.position == fact.origin.position]
    assert (reply.outcome, reply.reason) == (outcome, reason)


# Rejections that are only quoted: an example would be huge or need other settings.
QUOTED = [
    "empty: expected a JSON object",
    "not UTF-8",
    "not valid JSON: a number is too long",
    "id: longer than 200 characters",
    "is not valid Unicode",
    "is not among the topics that the settings allow",
    "no generation is on standby: ",
    "generation 1 is down: ",
    " task slots beside the live generation, but ",
]
CORE = Path(__file__).parents[2] / "src" / "livejoin" / "core"


@pytest.mark.parametrize("reason", QUOTED)
def test_a_quoted_reason_exists_in_the_core(reason: str) -> None:
    assert reason in PAGE
    code = "".join(file.read_text() for file in CORE.glob("*.py"))
    words = re.sub(r"\b(200|1)\b", ".{0,40}", re.escape(reason).replace(r"\ ", " "))
    assert re.search(words, code)


def test_every_reason_of_the_core_is_on_the_page() -> None:
    raised = re.findall(
        r'raise InvalidMessage\(\s*f?"([^"]+)"', (CORE / "control_messages.py").read_text()
    )
    assert len(raised) > 10
    pieces = [max(re.split(r"\{[^}]*\}", text), key=len) for text in raised]
    page = " ".join(PAGE.split())
    assert [piece for piece in pieces if piece.strip() not in page] == []


def test_every_field_join_action_and_outcome_is_described() -> None:
    assert [name for name in known_fields(spec.DEFAULT) if f"| `{name}` |" not in PAGE] == []
    assert [name for name in (*get_args(Join), *get_args(Action)) if f"`{name}`" not in PAGE] == []
    assert [name for name in get_args(Outcome) if f"\n| `{name}` |" not in PAGE] == []


def test_the_record_of_a_reply_is_described() -> None:
    record = Reply(Origin(1, 0.0, "kafka", ""), "live", 0.0).reply_record()
    after_table = PAGE.partition("A record of `<name>.replies`")[2]
    assert [name for name in record if f"\n| `{name}` |" not in after_table] == []


def test_the_messages_in_the_commands_are_valid() -> None:
    bodies = re.findall(r"(?:-d|echo) '(\{.*?\})'", PAGE)
    assert len(bodies) > 2
    for body in bodies:
        assert json.loads(body)
        assert _message_received(body).error == ""
