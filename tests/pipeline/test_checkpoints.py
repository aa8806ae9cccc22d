"""What a checkpoint tells of itself, whole or damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from livejoin.errors import GenerationUnrecoverable
from livejoin.pipeline.checkpoints import Checkpoints
from livejoin.pipeline.spark_driver import SparkDriver

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"u":{"0":%d,"1":7}}\n{"a":{"0":1}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint of generation 3, of eleven batches of which ten are finished."""
    one = tmp_path / "3"
    for name in ("offsets", "commits"):
        (one / name).mkdir(parents=True)
    (one / "metadata").write_text('{"id":"x"}')
    for batch in range(11):
        (one / "offsets" / str(batch)).write_text(OFFSETS % batch)
    for batch in range(10):
        (one / "commits" / str(batch)).write_text("v2\n{}")
    return one


@pytest.fixture
def checkpoints(session: SparkDriver, tmp_path: Path) -> Checkpoints:
    return Checkpoints(session, f"{tmp_path}/")


def test_it_reaches_to_the_end_of_the_last_finished_batch(
    checkpoints: Checkpoints, folder: Path
) -> None:
    assert folder.exists()
    assert checkpoints.committed_offsets(3) == {"u": {0: 9, 1: 7}, "a": {0: 1}}


def test_before_the_first_batch_has_ended_it_reaches_nowhere(
    checkpoints: Checkpoints, folder: Path
) -> None:
    shutil.rmtree(folder / "commits")
    assert checkpoints.committed_offsets(3) == {}


def test_one_that_is_not_there_is_none(checkpoints: Checkpoints) -> None:
    assert checkpoints.committed_offsets(3) is None


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no offsets": lambda it: shutil.rmtree(it / "offsets"),
    "empty": lambda it: (it / "offsets" / "9").write_text(""),
    "cut": lambda it: (it / "offsets" / "9").write_text((OFFSETS % 9)[:-20]),
    "cut in half": lambda it: (it / "offsets" / "9").write_text((OFFSETS % 9)[:20]),
    "something else": lambda it: (it / "offsets" / "9").write_text("v1\n{}\n[1]\n2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_one_that_is_damaged_is_spoilt(damage: str, checkpoints: Checkpoints, folder: Path) -> None:
    DAMAGE[damage](folder)
    with pytest.raises(GenerationUnrecoverable, match="offsets of batch 9"):
        checkpoints.committed_offsets(3)


def test_one_that_is_emptied_is_still_there(checkpoints: Checkpoints, folder: Path) -> None:
    checkpoints.reset(3)
    assert [one.name for one in folder.iterdir()] == ["metadata"]
    assert checkpoints.committed_offsets(3) == {}


def test_one_whose_metadata_are_cut_is_spoilt(checkpoints: Checkpoints, folder: Path) -> None:
    (folder / "metadata").write_text('{"id":')
    with pytest.raises(GenerationUnrecoverable, match="unreadable metadata"):
        checkpoints.committed_offsets(3)


def test_they_are_listed_and_forgotten(checkpoints: Checkpoints, folder: Path) -> None:
    (folder.parent / "notes").mkdir()
    (folder.parent / "12").mkdir()
    assert checkpoints.generations() == [3, 12]
    checkpoints.delete(3)
    checkpoints.delete(4)
    assert checkpoints.generations() == [12]
    assert not folder.exists()


def test_a_file_of_the_state_is_copied_without_a_checksum_file(
    session: SparkDriver, tmp_path: Path
) -> None:
    """It is how Spark keeps a snapshot, without which a restart would replay every batch."""
    (tmp_path / "state.sst").write_text("rows")
    spark = session.spark()
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    assert jvm is not None
    source, target = (
        jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/{name}") for name in ("state.sst", "kept.sst")
    )
    target.getFileSystem(conf).copyFromLocalFile(source, target)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept.sst", "state.sst"]
