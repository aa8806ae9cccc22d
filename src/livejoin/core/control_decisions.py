"""Facts about the control topic. Every message gets an outcome, and a reason if nothing changes."""

from dataclasses import replace
from typing import assert_never

from livejoin.core import transitions
from livejoin.core.control_messages import MAX_WARNINGS, Request
from livejoin.core.facts import (
    ControlTopicLost,
    ControlTopicOpened,
    HistoryReplayed,
    MessageReceived,
)
from livejoin.core.generation import position_text
from livejoin.core.spec import Choice
from livejoin.core.state import IDS_KEPT, State
from livejoin.core.task_slots import slot_shortage
from livejoin.core.transitions import log_line, reply

_RAW_LOGGED_CHARS = 1024


def on_message_received(state: State, fact: MessageReceived) -> State:
    """Apply a message. One that was already decided changes nothing."""
    origin, request = fact.origin, fact.request
    if origin.offset < state.position.get(origin.partition, 0):
        return state
    order = _next_read_order(state)
    origin = replace(origin, read_order=order)
    fact = replace(fact, origin=origin)
    position = {**state.position, origin.partition: origin.offset + 1}
    state = replace(state, position=position, read_order=order)
    state = log_line(
        state,
        "received",
        f"control {origin} by {origin.by}: {origin.raw[:_RAW_LOGGED_CHARS]}",
        origin=origin,
    )
    if request is None:
        return _reject(state, fact, fact.error)
    if request.id is not None:
        if request.id in state.ids:
            return _answer_repeat(state, fact, request.id)
        state = replace(state, ids=(*state.ids, request.id)[-IDS_KEPT:])
    for warning in request.warnings[:MAX_WARNINGS]:
        line = f"control {origin}: {warning}; it is ignored"
        state = log_line(state, "warning", line, origin=origin)
    choice = resolve_choice(state, request)
    why = rejection_reason(state, fact, request, choice)
    if why or choice is None:
        return _reject(state, fact, why)
    line = f"control {origin} resolves to {choice}"
    state = log_line(state, "resolved", line, origin=origin)
    match request.action:
        case "apply":
            return _apply(state, fact, request, choice)
        case "rollback":
            return _roll_back(state, fact)
        case "preview":
            state = reply(state, origin, "previewed", f"would resolve to {choice}")
            line = f"control {origin}: preview only, no change"
            return log_line(state, "previewed", line, origin=origin)
    assert_never(request.action)


def on_history_replayed(state: State, fact: HistoryReplayed) -> State:
    """Apply the history of a new control topic as one request."""
    if state.topic_id:  # positions in the old topic are meaningless in the new one
        state = transitions.clear_origins(state)
    order, first_line = _next_read_order(state), state.next_reply_line
    replies = tuple(
        replace(
            one,
            origin=replace(one.origin, read_order=order + number),
            line=first_line + number,
        )
        for number, one in enumerate(fact.replies)
    )
    state = replace(
        state,
        topic_id=fact.topic_id,
        position=fact.position,
        read_order=max(state.read_order, order + len(replies) - 1),
        reply_line=replies[-1].line if replies else state.reply_line,
        ids=fact.ids[-IDS_KEPT:],
        outbox=(*state.outbox, *replies),
    )
    choice = resolve_choice(state, fact.request)
    assert choice is not None, "LeaderStarted comes first, with the choice of the settings"
    if fact.message_count:
        line = f"{fact.message_count} earlier control messages resolve to {choice}"
        state = log_line(state, "history-replayed", line)
    newest = state.building or state.live
    if choice.repeated_topic:
        line = f"{choice} reads {choice.repeated_topic} twice: earlier messages are ignored"
        state = log_line(state, "history-ignored", line)
        choice = resolve_choice(state, Request())
        assert choice is not None
    if newest is not None and choice == state.fitted(newest.choice):
        return state
    state = transitions.build(state, choice, "history" if fact.message_count else "settings")
    return log_line(state, "building", f"building: {state.building}", generation=state.building)


def on_control_topic_opened(state: State, fact: ControlTopicOpened) -> State:
    """Continue at the first offsets that still exist; log the messages that were lost."""
    state = replace(state, control_error="")
    position = dict(state.position)
    for partition, first in sorted(fact.first_offsets.items()):
        at = position.setdefault(partition, 0)  # one that was added is read from its beginning
        if first > at:
            start, end = position_text(partition, at), position_text(partition, first - 1)
            lost = f"control messages {start} to {end} were deleted before they were read"
            state = log_line(state, "messages-lost", lost)
            position[partition] = first
    state = replace(state, position=position)
    positions = ", ".join(position_text(*one) for one in sorted(position.items()))
    return log_line(state, "listening", f"listening to {fact.topic} from {positions}")


def on_control_topic_lost(state: State, fact: ControlTopicLost) -> State:
    """Remember why control messages cannot be read; log each reason once."""
    if fact.why != state.control_error:
        state = log_line(state, "not-listening", f"not listening: {fact.why}")
    return replace(state, control_error=fact.why)


def _next_read_order(state: State) -> int:
    """Place of the next message in the order of reading.

    It starts from the clock, so that rows of an earlier ledger, if that is lost, come before.
    """
    return max(state.read_order + 1, int(state.now * 1000))


def resolve_choice(state: State, request: Request) -> Choice | None:
    """The complete choice of a request; missing fields come from the newest accepted choice."""
    if request.action == "rollback":
        return state.standby.choice if state.standby else None
    newest = state.building or state.live
    basis = newest.choice if newest else state.desired
    return request.applied_to(state.fitted(basis)) if basis else None


def rejection_reason(
    state: State, fact: MessageReceived, request: Request, choice: Choice | None
) -> str:
    """Why a request is rejected; empty if it is not."""
    live = state.live.number if state.live else None
    if request.expected_generation not in (None, live):
        is_live = f"generation {live} is" if live else "nothing is"
        return f"expectedGeneration is {request.expected_generation}, but {is_live} live"
    if request.action == "rollback":
        return _rollback_obstacle(state)
    if choice is None:
        return "livejoin has not started yet"
    for topic in request.topics.values():
        found = fact.topics.get(topic, f'topic "{topic}" does not exist')
        if isinstance(found, str):
            return found
    if topic := choice.repeated_topic:
        fields = [s.topic_field for s in state.spec.sources if choice.topics[s.name] == topic]
        return f"{' and '.join(fields)} are both {topic}: they must differ"
    return slot_shortage(state, fact, choice) if _needs_build(state, request, choice) else ""


def _needs_build(state: State, request: Request, choice: Choice) -> bool:
    """Whether a request needs a new generation."""
    existing = [state.fitted(g.choice) for g in (state.live, state.building) if g is not None]
    return bool(request.start) or choice not in existing


def _rollback_obstacle(state: State) -> str:
    standby = state.standby
    if standby is None:
        return (
            "no generation is on standby: there has been no swap yet, or standby_s has passed;"
            " request the topics and the join instead"
        )
    health = state.health_of(standby)
    # after a restart every query is still starting: that alone does not prevent a rollback
    down = health.given_up or health.blocked or (health.restarts and health.error)
    return f"generation {standby.number} is down: {health.problem}" if down else ""


def _apply(state: State, fact: MessageReceived, request: Request, choice: Choice) -> State:
    origin = fact.origin
    building, live = state.building, state.live
    if not request.start:
        if building is not None and choice == state.fitted(building.choice):
            why = f"generation {building.number} is already being built for it"
            state = state.with_health(building, retry_at=0.0)
            state = reply(state, origin, "building", why, building.number)
            line = f"control {origin}: no change, {why}"
            return log_line(state, "no-change", line, generation=building, origin=origin)
        if live is not None and choice == state.fitted(live.choice):
            return _confirm_live(state, fact)
    state = transitions.build(state, choice, origin.by, origin, request.start)
    assert state.building is not None
    state = reply(state, origin, "accepted", generation=state.building.number)
    beside = f" beside {live}" if live else ""
    line = f"control {origin}: building {state.building}{beside}"
    return log_line(state, "accepted", line, generation=state.building)


def _confirm_live(state: State, fact: MessageReceived) -> State:
    """The live choice was requested: cancel any build, and retry a query that was given up."""
    live, origin = state.live, fact.origin
    assert live is not None
    effect = "no change"
    if state.building is not None:
        effect = f"build of generation {state.building.number} cancelled"
        state = transitions.cancel(state, f"control {origin} requests the live choice")
    if state.health_of(live).unrecoverable:
        effect = "it cannot continue and will be rebuilt soon"
    elif state.health_of(live).given_up:
        effect = "its query is restarted"
        state = state.with_health(live, given_up=False, restarts=0, retry_at=0.0)
    state = transitions.replace_generation(state, replace(live, live_at=state.now))
    state = reply(state, origin, "live", effect, live.number)
    line = f"control {origin}: {effect}, generation {live.number} is live"
    return log_line(state, "confirmed", line, generation=live, origin=origin)


def _roll_back(state: State, fact: MessageReceived) -> State:
    standby = state.standby
    assert standby is not None
    if state.building is not None:  # the last request wins
        state = transitions.cancel(state, f"rolled back to generation {standby.number}")
    state = transitions.roll_back(state, fact.origin)
    assert state.live is not None
    number = state.live.number
    line = f"control {fact.origin}: generation {number} is live again"
    state = log_line(state, "confirmed", line, generation=state.live, origin=fact.origin)
    return reply(state, fact.origin, "live", "rolled back", number)


def _reject(state: State, fact: MessageReceived, why: str) -> State:
    origin = fact.origin
    serving = f", generation {state.live.number} keeps serving" if state.live else ""
    state = transitions.increment_tally(state, "rejected")
    line = f"control {origin} rejected: {why}"
    state = log_line(state, "rejected", line, origin=origin)
    line = f"control {origin}: no change{serving}"
    state = log_line(state, "no-change", line, origin=origin)
    return reply(state, origin, "rejected", why)


def _answer_repeat(state: State, fact: MessageReceived, message_id: str) -> State:
    why = f"id {message_id} was already decided"
    origin = fact.origin
    line = f"control {origin} resolves to nothing new: {why}"
    state = log_line(state, "repeated", line, origin=origin)
    line = f"control {origin}: no change"
    state = log_line(state, "no-change", line, origin=origin)
    return reply(state, fact.origin, "repeated", why)
