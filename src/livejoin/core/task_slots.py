"""Spark's task slots: how many a choice needs, and what is retired when they are short.

They must suffice for what is live and what is being built: a build that does not fit fails, and the
standby makes room.
"""

from livejoin.core import facts, transitions
from livejoin.core.spec import Choice
from livejoin.core.state import State


def slot_shortage(state: State, fact: facts.MessageReceived, choice: Choice) -> str:
    """Why a choice does not fit beside the live generation, or empty."""
    needed = slots_for(state, choice, fact)
    free = state.limits.slots - state.slots_of(state.live)
    if needed <= free:
        return ""
    return (
        f"{choice} needs {needed} task slots beside the live generation, but {max(0, free)} of"
        f" {state.limits.slots} are free; give Spark more in spark.master"
    )


def slots_for(state: State, choice: Choice, fact: facts.MessageReceived) -> int:
    """Task slots that a choice needs, as far as its topics are known."""
    counts = (_partition_count(state, topic, fact) for topic in choice.topics.values())
    return state.limits.slots_needed(sum(counts))


def _partition_count(state: State, topic: str, fact: facts.MessageReceived) -> int:
    found = fact.topics.get(topic)
    if isinstance(found, facts.TopicInfo):
        return found.partitions
    known = (generation.partitions_of(topic) for generation in state.generations)
    return next((count for count in known if count is not None), 0)


def free_slots(state: State, needed: int) -> State:
    """Retire the standby if task slots are short."""
    if state.standby is None or needed + state.slots_of(state.standby) <= state.limits.slots:
        return state
    return transitions.retire(state, state.standby, "its task slots are needed")
