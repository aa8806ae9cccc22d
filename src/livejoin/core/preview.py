"""Preview of a request: the same decision and plan, without carrying anything out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from livejoin.core.control_decisions import resolve_choice
from livejoin.core.decide import decide
from livejoin.core.facts import CaughtUp, MessageReceived, TopicInfo
from livejoin.core.generation import Generation
from livejoin.core.plan import KeepOnly, ResolveSources, plan
from livejoin.core.state import Reply, State
from livejoin.core.task_slots import slots_for


def preview(state: State, fact: MessageReceived) -> dict[str, Any]:
    """What would be built, read, kept and stopped if this message were received now."""
    request = fact.request
    assert request is not None, "an invalid message has no preview"
    if request.action == "preview":
        fact = replace(fact, request=replace(request, action="apply"))
    # a message received now is neither old nor a repeat
    next_offset = state.position.get(fact.origin.partition, 0)
    fact = replace(fact, origin=replace(fact.origin, offset=next_offset))
    after = decide(replace(state, outbox=(), ids=()), fact)
    answer = [item for item in after.outbox if isinstance(item, Reply)][-1]
    later = _after_catch_up(after)
    choice = resolve_choice(state, request)
    return {
        "outcome": answer.outcome,
        "reason": answer.reason or None,
        "warnings": list(fact.origin.warnings),
        "resolvesTo": state.spec.topic_cells(choice) if choice else None,
        "build": _new_build(after, state.last_number),
        "topics": {name: _topic_fields(found) for name, found in fact.topics.items()},
        "slots": {
            "needed": slots_for(state, choice, fact) if choice else None,
            "held": sum(state.slots_of(generation) for generation in state.generations),
            "total": state.limits.slots,
        },
        "now": {"live": _describe(state.live), "standby": _describe(state.standby)},
        "afterwards": {"live": _describe(later.live), "standby": _describe(later.standby)},
        "stopped": sorted(_kept_numbers(state) - _kept_numbers(later)),
    }


def _after_catch_up(state: State) -> State:
    if state.building is None:
        return state
    return decide(state, CaughtUp(state.building.number, 0))


def _new_build(state: State, last: int) -> str | None:
    steps = [step.generation for step in plan(state) if isinstance(step, ResolveSources)]
    new = [str(generation) for generation in steps if generation.number > last]
    return new[0] if new else None


def _kept_numbers(state: State) -> frozenset[int]:
    (keep,) = [step.numbers for step in plan(state) if isinstance(step, KeepOnly)]
    return keep


def _topic_fields(found: TopicInfo | str) -> Mapping[str, Any]:
    if isinstance(found, str):
        return {"exists": False, "reason": found}
    return {"exists": True, "partitions": found.partitions, "records": found.records}


def _describe(generation: Generation | None) -> str | None:
    return str(generation) if generation else None
