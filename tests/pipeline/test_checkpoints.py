"""Checkpoints: committed offsets, damage, reset, deletion."""

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
    """A checkpoint of generation 3, with eleven batches of which ten are committed."""
    checkpoint = tmp_path / "3"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    for batch in range(11):
        (checkpoint / "offsets" / str(batch)).write_text(OFFSETS % batch)
    for batch in range(10):
        (checkpoint / "commits" / str(batch)).write_text("v2\n{}")
    return checkpoint


@pytest.fixture
def checkpoints(session: SparkDriver, tmp_path: Path) -> Checkpoints:
    return Checkpoints(session, f"{tmp_path}/")


def test_committed_offsets_are_those_of_the_last_committed_batch(
    checkpoints: Checkpoints, folder: Path
) -> None:
    assert folder.exists()
    assert checkpoints.committed_offsets(3) == {"u": {0: 9, 1: 7}, "a": {0: 1}}


def test_committed_offsets_are_empty_before_the_first_commit(
    checkpoints: Checkpoints, folder: Path
) -> None:
    shutil.rmtree(folder / "commits")
    assert checkpoints.committed_offsets(3) == {}


def test_a_missing_checkpoint_has_no_committed_offsets(checkpoints: Checkpoints) -> None:
    assert checkpoints.committed_offsets(3) is None


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no offsets": lambda it: shutil.rmtree(it / "offsets"),
    "empty": lambda it: (it / "offsets" / "9").write_text(""),
    "cut": lambda it: (it / "offsets" / "9").write_text((OFFSETS % 9)[:-20]),
    "cut in half": lambda it: (it / "offsets" / "9").write_text((OFFSETS % 9)[:20]),
    "something else": lambda it: (it / "offsets" / "9").write_text("v1\n{}\n[1]\n2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_unrecoverable(
    damage: str, checkpoints: Checkpoints, folder: Path
) -> None:
    DAMAGE[damage](folder)
    with pytest.raises(GenerationUnrecoverable, match="offsets of batch 9"):
        checkpoints.committed_offsets(3)


def test_a_reset_checkpoint_keeps_its_metadata(checkpoints: Checkpoints, folder: Path) -> None:
    checkpoints.reset(3)
    assert [file.name for file in folder.iterdir()] == ["metadata"]
    assert checkpoints.committed_offsets(3) == {}


def test_truncated_metadata_is_unrecoverable(checkpoints: Checkpoints, folder: Path) -> None:
    (folder / "metadata").write_text('{"id":')
    with pytest.raises(GenerationUnrecoverable, match="unreadable metadata"):
        checkpoints.committed_offsets(3)


def test_checkpoints_are_listed_and_deleted(checkpoints: Checkpoints, folder: Path) -> None:
    (folder.parent / "notes").mkdir()
    (folder.parent / "12").mkdir()
    assert checkpoints.generations() == [3, 12]
    checkpoints.delete(3)
    checkpoints.delete(4)
    assert checkpoints.generations() == [12]
    assert not folder.exists()


def test_state_files_are_copied_without_checksum_files(
    session: SparkDriver, tmp_path: Path
) -> None:
    """Spark copies snapshots this way; without them a restart would replay every batch."""
    (tmp_path / "state.sst").write_text("rows")
    spark = session.spark()
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()
    assert jvm is not None
    source, target = (
        jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/{name}") for name in ("state.sst", "kept.sst")
    )
    target.getFileSystem(conf).copyFromLocalFile(source, target)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept.sst", "state.sst"]
