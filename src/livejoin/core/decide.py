"""The state machine: `decide(state, fact) -> State`, one case per fact.

Reading order: `facts` lists what can happen, this module which handler is called. The handlers are
in `clock`, `requests`, `builds` and `generation_decisions`, named `on_<fact>`. They change roles through
`transitions`, the only module that assigns `live`, `standby` and `building`. `docs/lifecycle.md` is
generated from this function.

It is pure: no clock, no topic, no file, no thread.
"""

from typing import assert_never

from livejoin.core import (
    builds,
    clock,
    control_decisions,
    facts,
    generation_decisions,
    transitions,
)
from livejoin.core.generation import Generation
from livejoin.core.state import State


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. Facts about generations that no longer exist change nothing."""
    match fact:
        case facts.LeaderStarted():
            return clock.on_leader_started(state, fact)
        case facts.ClockTicked():
            return clock.on_clock_ticked(state, fact)
        case facts.HistoryReplayed():
            return control_decisions.on_history_replayed(state, fact)
        case facts.ControlTopicOpened():
            return control_decisions.on_control_topic_opened(state, fact)
        case facts.ControlTopicLost():
            return control_decisions.on_control_topic_lost(state, fact)
        case facts.MessageReceived():
            return control_decisions.on_message_received(state, fact)
        case _:
            generation = state.find(fact.generation)
            return state if generation is None else _decide_generation(state, generation, fact)


def _decide_generation(state: State, generation: Generation, fact: facts.GenerationFact) -> State:
    match fact:
        case facts.QueryResumed():
            return transitions.mark_running(state, generation)
        case facts.QueryDied():
            return generation_decisions.on_query_died(state, generation, fact)
        case facts.Unrecoverable():
            return generation_decisions.on_unrecoverable(state, generation, fact)
        case facts.SourcesChecked():
            return generation_decisions.on_sources_checked(state, generation, fact)
        case facts.PartitionsAdded():
            return generation_decisions.on_partitions_added(state, generation, fact)
        case facts.RecordsCounted():
            return generation_decisions.on_records_counted(state, generation, fact)
        case _:
            return _decide_build(state, generation, fact) if generation is state.building else state


def _decide_build(state: State, building: Generation, fact: facts.BuildFact) -> State:
    match fact:
        case facts.SourcesResolved():
            return builds.on_sources_resolved(state, building, fact)
        case facts.ResolutionFailed():
            return builds.on_resolution_failed(state, building, fact)
        case facts.TopicsCreated():
            return builds.on_topics_created(state, building, fact)
        case facts.BuildProgressed():
            return builds.on_build_progressed(state, building, fact)
        case facts.CaughtUp():
            return builds.on_caught_up(state, building, fact)
    assert_never(fact)
