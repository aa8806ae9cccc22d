"""`docs/lifecycle.md` is generated from the code; run this file to regenerate it."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running this file as a script

from core import histories as h
from core.histories import after
from core.simulation import FACT_NAMES, KINDS, kind
from livejoin.core.control_messages import Request
from livejoin.core.decide import decide
from livejoin.core.facts import (
    BuildProgressed,
    CaughtUp,
    ControlTopicLost,
    ControlTopicOpened,
    Fact,
    HistoryReplayed,
    PartitionsAdded,
    QueryResumed,
    RecordsCounted,
    ResolutionFailed,
    SourcesChecked,
    SourcesResolved,
    SourcesUnreachable,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.generation import Generation, GenerationHealth
from livejoin.core.generation_decisions import MAX_RESTARTS
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.spec import DEFAULT
from livejoin.core.state import EndedGeneration, Reply, State

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
OTHER = DEFAULT.choice("users_b", "accounts_c", join="left_outer")
UNKNOWN = 99  # a generation that does not exist
UNRECOVERABLE: list[Fact] = [*h.LIVE, Unrecoverable(1, "another topic")]

# By kind: before and after the build is resolved.
HISTORIES: dict[str, tuple[Sequence[Fact], Sequence[Fact]]] = {
    "nothing yet": ([h.STARTED], [h.STARTED]),
    "waiting": (h.WAITING, h.WAITING),
    "first build": (h.FIRST, [*h.FIRST_READS, QueryResumed(1)]),
    "live": (h.LIVE, h.LIVE),
    "live with standby": (h.SWAPPED, h.SWAPPED),
    "restarting": ([*h.LIVE, h.died(1)], [*h.LIVE, h.died(1)]),
    "building": (h.SWAPPING, h.SWAP_READS),
    "building with standby": (h.FURTHER, h.FURTHER_READS),
    "down": (h.LIVE_DOWN, h.LIVE_DOWN),
    "down, building": (UNRECOVERABLE, [*UNRECOVERABLE, SourcesResolved(2, h.reading(h.A))]),
}
MEANING = {
    "nothing yet": "started; the control topic has not been read yet",
    "waiting": "nothing is live, and the first build waits for something, such as a topic",
    "first build": "nothing is live; the first build is in progress",
    "live": "one generation is live",
    "live with standby": "one generation is live, and the previous one is on standby",
    "restarting": "the live query died and is about to be restarted",
    "building": "a swap: one generation is live, another is being built",
    "building with standby": "another swap, while one generation is on standby",
    "down": "the live query died too often and was given up; its last rows are kept",
    "down, building": "the live generation is unrecoverable and is being rebuilt",
}


def _number(generation: Generation | None) -> int:
    return generation.number if generation else UNKNOWN


def _stalled(state: State) -> list[Fact]:
    return [h.ticked(state.now + 4 * step) for step in range(1, 17)]


def _asks_for(state: State, generation: Generation | None) -> list[Fact] | None:
    return [h.received_choice(state.position.get(0, 0), generation.choice)] if generation else None


@dataclass(frozen=True)
class Row:
    """A row of the table: one or more facts, applied to every kind of state."""

    name: str
    what: str
    facts: Callable[[State], list[Fact] | None]  # None: the fact cannot occur
    resolved: bool = True  # whether the build is resolved
    first: Callable[[State], list[Fact]] = lambda _: []  # facts before it


def _query(role: str, *facts: Callable[[int], Fact]) -> Callable[[State], list[Fact] | None]:
    """Facts about a query; None if the query cannot have been started."""

    def facts_for(state: State) -> list[Fact] | None:
        generation: Generation | None = getattr(state, role)
        if generation is not None and not generation.resolved:
            return None
        return [fact(_number(generation)) for fact in facts]

    return facts_for


def _unrecoverable(number: int) -> Fact:
    return Unrecoverable(number, "another topic")


def _blocked(number: int) -> Fact:
    return SourcesChecked(number, "no such topic")


def _partitions_added(role: str, partitions: int = 2) -> Callable[[State], list[Fact] | None]:
    def facts_for(state: State) -> list[Fact] | None:
        generation: Generation | None = getattr(state, role)
        return [PartitionsAdded(_number(generation), h.reading(h.A, partitions))]

    return facts_for


DEATHS = [h.died] * (MAX_RESTARTS + 1)
TIMES = f"{len(DEATHS)} times in a row"
ROWS = (
    Row(
        "LeaderStarted",
        "livejoin was killed and restarted",
        lambda s: [h.started(s.now + 1, h.A)],
    ),
    Row("ClockTicked", "a second has passed", lambda s: [h.ticked(s.now + 1)]),
    Row("ClockTicked", "`build_stall_s` has passed without progress", _stalled),
    Row(
        "ClockTicked",
        "10 s have passed since a build failed",
        lambda s: [h.ticked(s.now + 11)],
        first=lambda s: [_unrecoverable(_number(s.building))],
    ),
    Row("ClockTicked", "`standby_s` has passed", lambda s: [h.ticked(s.now + 901)]),
    Row(
        "HistoryReplayed",
        "the control topic is empty",
        lambda _: [HistoryReplayed("new", {0: 0}, Request())],
    ),
    Row(
        "HistoryReplayed",
        "the control topic contains another choice",
        lambda _: [HistoryReplayed("new", {0: 1}, Request(OTHER.topics, OTHER.join), 1)],
    ),
    Row(
        "ControlTopicOpened",
        "control messages can be read again",
        lambda _: [ControlTopicOpened("control", {0: 0})],
        first=lambda _: [ControlTopicLost("boom")],
    ),
    Row(
        "ControlTopicLost", "control messages cannot be read", lambda _: [ControlTopicLost("boom")]
    ),
    Row(
        "MessageReceived",
        "for another choice",
        lambda s: [h.received_choice(s.position.get(0, 0), OTHER)],
    ),
    Row("MessageReceived", "for the live choice", lambda s: _asks_for(s, s.live)),
    Row("MessageReceived", "for the choice being built", lambda s: _asks_for(s, s.building)),
    Row(
        "MessageReceived",
        "for a new start",
        lambda s: [h.received(s.position.get(0, 0), start="1h")],
    ),
    Row(
        "MessageReceived",
        "for a rollback",
        lambda s: [h.received(s.position.get(0, 0), action="rollback")],
    ),
    Row(
        "MessageReceived",
        "for a preview",
        lambda s: [h.received(s.position.get(0, 0), action="preview")],
    ),
    Row(
        "MessageReceived",
        "an invalid message",
        lambda s: [h.received_raw(s.position.get(0, 0), b"[]")],
    ),
    Row(
        "SourcesResolved",
        "of the build",
        lambda s: [SourcesResolved(_number(s.building), h.reading(h.A))],
        resolved=False,
    ),
    Row(
        "ResolutionFailed",
        "a topic is missing",
        lambda s: [ResolutionFailed(_number(s.building), "no topic", missing=True)],
        resolved=False,
    ),
    Row(
        "ResolutionFailed",
        "Kafka is unreachable",
        lambda s: [ResolutionFailed(_number(s.building), "no broker")],
        resolved=False,
    ),
    Row(
        "TopicsCreated",
        "of the build",
        lambda s: [TopicsCreated(_number(s.building), "id-new")],
    ),
    Row("QueryResumed", "the live query", lambda s: [QueryResumed(_number(s.live))]),
    Row("BuildProgressed", "the build", _query("building", lambda n: BuildProgressed(n, 5, 10))),
    Row("CaughtUp", "the build", _query("building", lambda n: CaughtUp(n, 7))),
    Row("QueryDied", "the live query", _query("live", h.died)),
    Row("QueryDied", "the standby's query", _query("standby", h.died)),
    Row("QueryDied", "the build's query", _query("building", h.died)),
    Row("QueryDied", f"the live query, {TIMES}", _query("live", *DEATHS)),
    Row("QueryDied", f"the standby's query, {TIMES}", _query("standby", *DEATHS)),
    Row("QueryDied", f"the build's query, {TIMES}", _query("building", *DEATHS)),
    Row("Unrecoverable", "the live generation", _query("live", _unrecoverable)),
    Row("Unrecoverable", "the standby", _query("standby", _unrecoverable)),
    Row("Unrecoverable", "the build", _query("building", _unrecoverable)),
    Row(
        "SourcesChecked", "a topic of the live generation cannot be read", _query("live", _blocked)
    ),
    Row(
        "SourcesUnreachable",
        "the cluster of the sources does not answer",
        lambda _: [SourcesUnreachable()],
        first=lambda s: [h.ticked(s.now + 1)],
    ),
    Row(
        "PartitionsAdded",
        "a topic of the live generation has more partitions",
        _partitions_added("live"),
    ),
    Row("PartitionsAdded", "more than Spark has task slots for", _partitions_added("live", 600)),
    Row(
        "RecordsCounted",
        "the live generation",
        _query("live", lambda n: RecordsCounted(n, {"read": 1})),
    ),
    Row(
        "RecordsCounted",
        "a table has reached `max_rows`",
        _query("live", lambda n: RecordsCounted(n, {}, ("t",))),
    ),
)


@dataclass(frozen=True)
class Run:
    """Effect of a row on a kind of state."""

    row: Row
    before: State
    after: State

    @property
    def outbox_items(self) -> tuple[object, ...]:
        return self.after.outbox

    @property
    def ends(self) -> Mapping[int, str]:
        return {
            item.generation.number: item.end
            for item in self.outbox_items
            if isinstance(item, EndedGeneration)
        }

    def changes(self) -> Iterator[tuple[str, str]]:
        """Changes of the generations' roles: from, to."""
        before, now = _roles(self.before), _roles(self.after)
        for number in sorted({*before, *now}):
            old, new = before.get(number, "[*]"), now.get(number) or self.ends[number]
            if old != new:
                yield old, new


def _roles(state: State) -> dict[int, str]:
    generations = {"live": state.live, "standby": state.standby, "building": state.building}
    return {
        generation.number: role
        for role, generation in generations.items()
        if generation is not None
    }


def _run(row: Row, name: str) -> Run | None:
    """Apply a row to a kind of state; None if the facts cannot occur in it."""
    state = after(HISTORIES[name][row.resolved])
    before = after(
        row.first(state), replace(state, now=state.now + 0.5, monotonic=state.monotonic + 0.5)
    )
    before = replace(before, outbox=())
    facts = row.facts(before)
    if facts is None or (row.name == "MessageReceived" and not before.topic_id):
        return None
    assert {type(fact).__name__ for fact in facts} == {row.name}
    crashed = from_json(to_json(before)) if row.name == "LeaderStarted" else before
    return Run(row, before, reduce(decide, facts, crashed))


WORDS = {
    ("[*]", "building"): "new build",
    ("building", "live"): "build → live",
    ("building", "failed"): "build failed",
    ("building", "superseded"): "build superseded",
    ("live", "standby"): "live → standby",
    ("live", "retired"): "live retired",
    ("standby", "live"): "standby → live",
    ("standby", "retired"): "standby retired",
}
QUIET = ("rejected", "previewed")


def _cell(run: Run | None) -> str:
    if run is None:
        return ""
    words = [WORDS[change] for change in run.changes()]
    words += _health(run)
    words += [
        item.outcome
        for item in run.outbox_items
        if isinstance(item, Reply) and item.outcome in QUIET
    ]
    before, now = run.before, run.after
    if before.control_error != now.control_error:
        words.append("listening" if not now.control_error else "not listening")
    if not words and before.live and now.live and before.live.live_at != now.live.live_at:
        words.append("confirmed")
    return ", ".join(words) or "—"


def _health(run: Run) -> Iterator[str]:
    """Changes in the health of the remaining generations."""
    roles = _roles(run.after)
    for generation in run.after.generations:
        old, role = run.before.find(generation.number), roles[generation.number]
        name = "build" if role == "building" else role
        if old is None:
            continue
        was, now = run.before.health_of(old), run.after.health_of(generation)
        if generation.resolved and not old.resolved:
            yield "build reads"
        elif now.unrecoverable and not was.unrecoverable:
            yield f"{name} unusable"
        elif now.given_up and not was.given_up:
            yield f"{name} down"
        elif was.error and not now.error and run.row.name == "QueryResumed":
            yield f"{name} runs again"
        elif (was.given_up and not now.given_up) or _due(run, was, now):
            yield f"{name} tried again"
        elif now.retry_at > max(was.retry_at, run.after.monotonic):
            yield f"restart {name} later" if generation.resolved else "ask again later"
        yield from _since(name, was, now, run.row.name)
        if old.resolved and generation.sources != old.sources and not now.given_up:
            yield f"{name} restarted"


def _since(name: str, was: GenerationHealth, now: GenerationHealth, fact: str) -> Iterator[str]:
    if now.progressed_at > was.progressed_at and fact == "SourcesUnreachable":
        yield f"{name} has more time"
    if now.blocked and not was.blocked:
        yield f"{name} waits"
    if now.done > was.done:
        yield "progress"


def _due(run: Run, was: GenerationHealth, now: GenerationHealth) -> bool:
    """Whether the retry has become due."""
    waited = not now.given_up and was.retry_at > run.before.monotonic
    return waited and now.retry_at <= run.after.monotonic


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| fact | " + " | ".join(KINDS) + " |"
    yield "|---" * (len(KINDS) + 1) + "|"
    for row in rows:
        cells = [_cell(_run(row, name)) for name in KINDS]
        yield f"| **{row.name}**: {row.what} | " + " | ".join(cells) + " |"


def _diagram() -> Iterator[str]:
    """State diagram of a generation, from the runs above."""
    seen: dict[tuple[str, str], list[str]] = {}
    for row in ROWS:
        for name in KINDS:
            run = _run(row, name)
            for change in run.changes() if run else ():
                names = seen.setdefault(change, [])
                names += [row.name] if row.name not in names else []
    yield "```mermaid"
    yield "stateDiagram-v2"
    for (old, new), names in seen.items():
        yield f"    {old} --> {new}: {', '.join(names)}"
    for end in ("failed", "superseded", "retired"):
        yield f"    {end} --> [*]"
    yield "```"


INTRODUCTION = """\
# The life of a generation

The control plane of livejoin is one pure function, `decide(state, fact) -> state`. A fact is
something that has happened: a message was received, a query died, a second has passed. The state
holds the existing generations, at most one in each role: **live** (its tables are served),
**standby** (the previous one, still running, for a rollback) and **building**. The actions follow
from the state alone, so a crash is no special case.

The diagrams and tables below are generated from the code by `python tests/docs/test_lifecycle.py`;
a test fails when they differ. The facts are described in `src/livejoin/core/facts.py`, and
`src/livejoin/core/decide.py` names the handler of each.

## A generation

Each arrow names the facts that can cause it. A generation that has left the diagram never returns:
its query, changelog topic and checkpoint are removed, and its number is not reused.
"""
KINDS_HEAD = """\
## Kinds of states

| kind | what it means |
|---|---|
"""
TABLE_HEAD = """\
## What follows from which fact

Each row is a fact, each column the kind of state in which it occurs. — means that no generation
changes; an empty cell means that the fact cannot occur. Facts about a generation that no longer
exists change nothing. Every message also gets an outcome; see
[control messages](control-messages.md).
"""


def page() -> str:
    """The whole page."""
    kinds = [f"| {name} | {MEANING[name]} |" for name in KINDS]
    return "\n".join(
        [
            INTRODUCTION,
            *_diagram(),
            "",
            KINDS_HEAD + "\n".join(kinds),
            "",
            TABLE_HEAD,
            *_table(ROWS),
            "",
        ]
    )


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "regenerate it: python tests/docs/test_lifecycle.py"


@pytest.mark.parametrize("name", KINDS)
def test_a_history_leads_to_its_kind(name: str) -> None:
    assert [kind(after(history)) for history in HISTORIES[name]] == [name, name]


def test_every_fact_has_a_row() -> None:
    assert list(dict.fromkeys(row.name for row in ROWS)) == list(FACT_NAMES)


def test_ended_generations_never_return() -> None:
    arrows = [line.split(":")[0].split() for line in _diagram() if "-->" in line]
    assert {new for old, _, new in arrows if old in ("failed", "superseded", "retired")} == {"[*]"}
    assert {old for old, _, new in arrows if new == "live"} == {"building", "standby"}


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
