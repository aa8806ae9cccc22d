"""Spark task slots: what a choice needs, whether there are enough, and how to free some."""

from livejoin.core import transitions
from livejoin.core.facts import MessageReceived, TopicInfo
from livejoin.core.spec import Choice
from livejoin.core.state import State


def slot_shortage(state: State, fact: MessageReceived, choice: Choice) -> str:
    """Why a choice does not fit beside the live generation, or empty."""
    needed = slots_for(state, choice, fact)
    free = state.limits.slots - state.slots_of(state.live)
    if needed <= free:
        return ""
    return (
        f"{choice} needs {needed} task slots beside the live generation, but {max(0, free)} of"
        f" {state.limits.slots} are free; give Spark more in spark.master"
    )


def slots_for(state: State, choice: Choice, fact: MessageReceived) -> int:
    """Task slots that a choice needs, as far as its topics are known."""
    return state.limits.slots_needed(
        _partition_count(state, choice.users, fact) + _partition_count(state, choice.accounts, fact)
    )


def _partition_count(state: State, topic: str, fact: MessageReceived) -> int:
    found = fact.topics.get(topic)
    if isinstance(found, TopicInfo):
        return found.partitions
    known = (generation.partitions_of(topic) for generation in state.generations)
    return next((count for count in known if count is not None), 0)


def free_slots(state: State, needed: int) -> State:
    """Retire the standby if task slots are short."""
    if state.standby is None or needed + state.slots_of(state.standby) <= state.limits.slots:
        return state
    return transitions.retire(state, state.standby, "its task slots are needed")
