"""What a request would do: the same decision and the same plan, walked by someone who only reads.

Nothing is done, and nothing is told.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from livejoin.core.decide import decide
from livejoin.core.facts import Asked, CaughtUp, Found
from livejoin.core.generation import Generation
from livejoin.core.outbox import Reply
from livejoin.core.plan import Keep, Resolve, plan
from livejoin.core.requests import resolved, slots
from livejoin.core.spec import Choice
from livejoin.core.state import State


def preview(state: State, fact: Asked) -> dict[str, Any]:
    """What would be built, read, kept and stopped if this message came now."""
    request = fact.request
    assert request is not None, "what cannot be understood has no plan"
    if request.action == "preview":
        fact = replace(fact, request=replace(request, action="apply"))
    # a message that comes now is neither old nor known
    fact = replace(fact, origin=replace(fact.origin, offset=state.position))
    after = decide(replace(state, untold=(), ids=()), fact)
    answer = [told for told in after.untold if isinstance(told, Reply)][-1]
    later = _when_ready(after)
    choice = resolved(state, request)
    return {
        "outcome": answer.outcome,
        "reason": answer.reason or None,
        "resolvesTo": _fields(choice),
        "build": _built(after, state.last_number),
        "topics": {name: _topic(found) for name, found in fact.topics.items()},
        "slots": {
            "needed": slots(state, choice, fact) if choice else None,
            "held": sum(state.slots_of(generation) for generation in state.wants),
            "total": state.limits.slots,
        },
        "now": {"live": _name(state.live), "standby": _name(state.standby)},
        "afterwards": {"live": _name(later.live), "standby": _name(later.standby)},
        "stopped": sorted(_kept(state) - _kept(later)),
    }


def _when_ready(state: State) -> State:
    if state.building is None:
        return state
    return decide(state, CaughtUp(state.building.number, 0))


def _fields(choice: Choice | None) -> dict[str, str] | None:
    if choice is None:
        return None
    return {"usersTopic": choice.users, "accountsTopic": choice.accounts, "joinType": choice.join}


def _built(state: State, last: int) -> str | None:
    steps = [step.generation for step in plan(state) if isinstance(step, Resolve)]
    new = [str(generation) for generation in steps if generation.number > last]
    return new[0] if new else None


def _kept(state: State) -> frozenset[int]:
    (keep,) = [step.numbers for step in plan(state) if isinstance(step, Keep)]
    return keep


def _topic(found: Found | str) -> Mapping[str, Any]:
    if isinstance(found, str):
        return {"exists": False, "reason": found}
    return {"exists": True, "partitions": found.partitions, "records": found.records}


def _name(generation: Generation | None) -> str | None:
    return str(generation) if generation else None
