"""A coordinator that is not there yet, as on a cluster on which nobody has used a group."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from livejoin.doctor import rights
from livejoin.doctor.findings import Finding
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka

FOUND = object()  # a description without rights


@dataclass
class Answering:
    """A cluster, and its admin client, that gives these answers about a group, one by one."""

    answers: list[Any]
    asked: list[str] = field(default_factory=list)

    @property
    def admin(self) -> "Answering":
        return self

    def describe_consumer_groups(self, groups: list[str], **_options: Any) -> dict[str, Any]:
        self.asked += groups
        future: Future[Any] = Future()
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        else:
            future.set_result(answer)
        return {groups[0]: future}


def check(cluster: Answering) -> Finding:
    return rights.check_group(cast("Kafka", cluster), "crm.pins")


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    ],
)
def test_a_coordinator_is_waited_for(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_POLL_S", 0)
    cluster = Answering([code, code, FOUND])
    assert check(cluster).severity == "ok"
    assert cluster.asked == ["crm.pins"] * 3


def test_it_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_COORDINATOR_S", -1)
    cluster = Answering([KafkaError.COORDINATOR_NOT_AVAILABLE])
    with pytest.raises(KafkaUnavailable, match=r"crm\.pins: .*COORDINATOR_NOT_AVAILABLE"):
        check(cluster)


def test_other_errors_are_not_repeated() -> None:
    cluster = Answering([KafkaError.GROUP_MAX_SIZE_REACHED])
    with pytest.raises(KafkaUnavailable):
        check(cluster)
    assert cluster.answers == []
