"""What carries out the steps outlives whatever a step dies of."""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from fakes import FakePipeline, FakeWorld, topics
from livejoin.control import executor as executor_module
from livejoin.control.executor import Executor, Inbox
from livejoin.core import facts, plan
from livejoin.core.generation import Generation, Reading
from livejoin.core.spec import Choice
from livejoin.errors import NotAuthorized
from rig.running import until

LIMIT_S = 20
ONE, TWO, *MORE = (Generation(n, Choice("users", "accounts"), 0.0) for n in range(1, 21))
GONE = [ConnectionRefusedError("the JVM is gone"), KeyError("what nobody thought of")]


class FailingPipeline(FakePipeline):
    """One in which something goes wrong, once."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.stopping: list[Exception] = []
        self.cleaning: list[Exception] = []
        self.late = threading.Event()  # what ends a way that does not end by itself
        self.following = threading.Event()
        self.slow: dict[int, threading.Event] = {}  # what lets a resolve go on, by generation
        self.resolving: list[int] = []

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        self.resolving.append(generation.number)
        if generation.number in self.slow:
            assert self.slow[generation.number].wait(LIMIT_S)
        return super().resolve(generation)

    def stop(self, generation: int) -> None:
        if self.stopping:
            raise self.stopping.pop()
        super().stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        if self.cleaning:
            raise self.cleaning.pop()
        super().keep(numbers, last)

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        if generation.number == 1:
            self.following.set()
            assert self.late.wait(LIMIT_S)
            raise OSError("too late")
        return super().catch_up(generation, progressed, stopped)


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld(topics=topics("users", "accounts"))


@pytest.fixture
def pipeline(world: FakeWorld) -> FailingPipeline:
    return FailingPipeline(world)


@contextmanager
def at_work(pipeline: FailingPipeline) -> Iterator[tuple[Executor, Inbox]]:
    inbox: Inbox = queue.Queue()
    executor = Executor(inbox, pipeline)
    try:
        yield executor, inbox
    finally:
        pipeline.late.set()
        executor.close()


@pytest.mark.parametrize("error", GONE)
def test_a_query_that_cannot_be_stopped_holds_up_no_other(
    world: FakeWorld, pipeline: FailingPipeline, error: Exception
) -> None:
    pipeline.stopping = [error]
    with at_work(pipeline) as (executor, _):
        executor.carry_out(plan.RunQueries((ONE,)))
        until(lambda: 1 in world.running, "the first runs", LIMIT_S)
        executor.carry_out(plan.RunQueries((TWO,)))
        until(lambda: 2 in world.running, "the second runs", LIMIT_S)


@pytest.mark.parametrize("error", GONE)
def test_what_could_not_be_removed_is_removed_later(
    world: FakeWorld, pipeline: FailingPipeline, error: Exception
) -> None:
    pipeline.cleaning = [error]
    world.changelogs.add(1)
    with at_work(pipeline) as (executor, _):
        executor.carry_out(plan.KeepOnly(frozenset(), 1))
        until(lambda: not world.changelogs, "nothing is left", LIMIT_S)


def test_a_topic_that_a_late_client_created_again_is_removed(
    world: FakeWorld, pipeline: FailingPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has not changed: nothing else would make the executor look again."""
    monkeypatch.setattr(executor_module, "_SWEEP_S", 0.1)
    world.changelogs.add(1)
    with at_work(pipeline) as (executor, _):
        executor.carry_out(plan.KeepOnly(frozenset(), 1))
        until(lambda: not world.changelogs, "nothing is left", LIMIT_S)
        world.changelogs.add(1)
        until(lambda: not world.changelogs, "nothing is left again", LIMIT_S)


def test_what_a_run_dies_of_after_its_end_is_not_told(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    with at_work(pipeline) as (executor, inbox):
        executor.carry_out(plan.RunQueries((ONE,)))
        assert pipeline.following.wait(LIMIT_S)
        executor.carry_out(plan.RunQueries((TWO,)))
        until(lambda: 1 not in world.running, "the first is stopped", LIMIT_S)
        pipeline.late.set()
    told = [inbox.get_nowait() for _ in range(inbox.qsize())]
    assert not any(isinstance(fact, facts.QueryDied) for fact in told)


def test_superseded_generations_are_not_resolved_and_keep_no_run_waiting(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    pipeline.slow = {generation.number: threading.Event() for generation in MORE}
    *superseded, newest = MORE
    with at_work(pipeline) as (executor, inbox):
        try:
            for generation in MORE:  # a burst of messages, each of which supersedes the one before
                executor.carry_out(plan.ResolveSources(generation))
            executor.carry_out(plan.RunQueries((TWO,)))
            until(lambda: _told(inbox, facts.CaughtUp), "a run is followed meanwhile", LIMIT_S)
            for slow in pipeline.slow.values():
                slow.set()
            until(lambda: _told(inbox, facts.SourcesResolved, newest.number), "the newest", LIMIT_S)
        finally:
            for slow in pipeline.slow.values():
                slow.set()
    assert len([g for g in superseded if g.number in pipeline.resolving]) <= 1
    assert world.running == {2}


def _told(inbox: Inbox, kind: type[facts.GenerationFact], number: int = 2) -> bool:
    with inbox.mutex:
        return any(isinstance(f, kind) and f.generation == number for f in inbox.queue)


def test_what_could_not_be_resolved_is_resolved_when_asked_for_again(
    pipeline: FailingPipeline,
) -> None:
    with at_work(pipeline) as (executor, inbox):
        pipeline._world.topics.pop("users")
        executor.carry_out(plan.ResolveSources(ONE))
        until(lambda: _told(inbox, facts.ResolutionFailed, 1), "it is missing", LIMIT_S)
        pipeline._world.topics["users"] = "again"
        executor.carry_out(plan.ResolveSources(ONE))
        until(lambda: _told(inbox, facts.SourcesResolved, 1), "it is there", LIMIT_S)


def test_a_query_that_was_not_wanted_for_a_moment_is_started_again(world: FakeWorld) -> None:
    """It died, waits for its next try, and whoever starts queries is busy all that time."""
    busy, go_on = threading.Event(), threading.Event()

    class Busy(FailingPipeline):
        def start(self, generation: Generation) -> Mapping[str, Reading] | None:
            if generation.number == 2:
                busy.set()
                assert go_on.wait(LIMIT_S)
            return super().start(generation)

    pipeline = Busy(world)
    with at_work(pipeline) as (executor, _):
        executor.carry_out(plan.RunQueries((ONE,)))
        assert pipeline.following.wait(LIMIT_S)
        executor.carry_out(plan.RunQueries((ONE, TWO)))
        assert busy.wait(LIMIT_S)
        before = world.effects.count("after start")
        executor.carry_out(plan.RunQueries((TWO,)))
        executor.carry_out(plan.RunQueries((ONE, TWO)))
        go_on.set()
        until(lambda: world.effects.count("after start") == before + 2, "both started", LIMIT_S)
        assert world.running == {1, 2}


def test_topics_are_made_once_however_often_they_are_asked_for(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    with at_work(pipeline) as (executor, inbox):
        for _ in range(20):
            executor.carry_out(plan.CreateTopics((ONE,)))
            executor.carry_out(plan.RunQueries(()))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(1, "made 1")
        executor.carry_out(plan.CreateTopics(()))
        executor.carry_out(plan.CreateTopics((TWO,)))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(2, "made 2")
    assert world.topics_created == 2


def test_topics_that_could_not_be_made_are_tried_again_when_asked_for_again(
    world: FakeWorld,
) -> None:
    class Failing(FailingPipeline):
        def make_topics(self, generation: Generation) -> tuple[str, str]:
            if not world.topics_created:
                world.topics_created += 1
                raise NotAuthorized("may not be made")
            return super().make_topics(generation)

    with at_work(Failing(world)) as (executor, inbox):
        executor.carry_out(plan.CreateTopics((ONE,)))
        assert inbox.get(timeout=LIMIT_S) == facts.QueryDied(
            1, "may not be made", counts_as_failure=False
        )
        executor.carry_out(plan.CreateTopics(()))  # until the next try
        executor.carry_out(plan.CreateTopics((ONE,)))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(1, "made 2")


def test_in_a_burst_what_superseded_builds_left_is_removed_before_there_is_more(
    world: FakeWorld,
) -> None:
    class Burst(FailingPipeline):
        """Whenever topics were made, another message has superseded their generation already."""

        most = 0

        def make_topics(self, generation: Generation) -> tuple[str, str]:
            found = super().make_topics(generation)
            self.most = max(self.most, len(world.changelogs))
            ask(generation.number + 1)
            return found

    def ask(number: int) -> None:
        asked = [one for one in MORE if one.number == number]
        executor.carry_out(plan.CreateTopics(tuple(asked)))
        executor.carry_out(plan.RunQueries(()))
        executor.carry_out(plan.KeepOnly(frozenset(one.number for one in asked), MORE[-1].number))

    pipeline = Burst(world)
    with at_work(pipeline) as (executor, _):
        ask(MORE[0].number)
        until(
            lambda: world.topics_created == len(MORE) and not world.changelogs,
            "all is gone",
            LIMIT_S,
        )
    assert pipeline.most <= 2
