"""Checkpoints of generations on any file system that Hadoop supports: list, read, reset, delete.

Their content belongs to Spark. Only the metadata and the offset and commit logs are read here.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from py4j.protocol import Py4JError

from livejoin.errors import GenerationUnrecoverable, QueryFailed, first_line
from livejoin.pipeline.spark_driver import SparkDriver

_METADATA = "metadata"  # the file that Spark writes first
CommittedOffsets = Mapping[str, Mapping[int, int]]  # by topic and partition: the next offset


class Checkpoints:
    """The checkpoints of one livejoin: a folder with a checkpoint per generation."""

    def __init__(self, driver: SparkDriver, root: str) -> None:
        self._driver = driver
        self.root = root.rstrip("/")

    def path(self, generation: int | str) -> str:
        """Path of a generation's checkpoint, or of another one by name."""
        return f"{self.root}/{generation}"

    def generations(self) -> list[int]:
        """Numbers of the generations that have a checkpoint."""
        if is_local(self.root):  # so that no JVM is needed yet
            folder = Path(urlparse(self.root).path)
            names = [entry.name for entry in folder.iterdir()] if folder.exists() else []
        else:
            with self._hadoop() as (files, path):
                names = _list_names(files, path(self.root))
        return sorted(int(name) for name in names if name.isdecimal())

    def delete(self, generation: int | str) -> None:
        """Delete a checkpoint."""
        with self._hadoop() as (files, path):
            folder = path(self.path(generation))
            files(folder).delete(folder, True)  # noqa: FBT003 - Java has no keyword arguments

    def reset(self, generation: int | str) -> None:
        """Reset to an empty checkpoint, keeping its metadata."""
        with self._hadoop() as (files, path):
            for name in _list_names(files, path(self.path(generation))):
                if name != _METADATA:
                    file = path(f"{self.path(generation)}/{name}")
                    files(file).delete(file, True)  # noqa: FBT003 - as above

    def committed_offsets(self, generation: int | str) -> CommittedOffsets | None:
        """Next offsets after the last committed batch; None where there is no checkpoint."""
        with self._hadoop() as (files, path):
            metadata = path(f"{self.path(generation)}/{_METADATA}")
            if not files(metadata).exists(metadata):
                return None
            if not _is_json(self._read_text(files(metadata).open(metadata))):
                raise GenerationUnrecoverable("its checkpoint has unreadable metadata")
            commits = _list_names(files, path(f"{self.path(generation)}/commits"))
            last = max((int(name) for name in commits if name.isdecimal()), default=None)
            if last is None:
                return {}
            offsets_file = path(f"{self.path(generation)}/offsets/{last}")
            if not files(offsets_file).exists(offsets_file):
                raise GenerationUnrecoverable(f"its checkpoint has no offsets of batch {last}")
            text = self._read_text(files(offsets_file).open(offsets_file))
        try:
            _version, _conf, first, *others = text.splitlines()
            ends = [json.loads(source) for source in (first, *others)]
            return {
                topic: {int(p): offset for p, offset in offsets.items()}
                for end in ends
                for topic, offsets in end.items()
            }
        except (ValueError, AttributeError) as error:
            raise GenerationUnrecoverable(
                f"its checkpoint has unreadable offsets of batch {last}"
            ) from error

    def _read_text(self, stream: Any) -> str:
        jvm = self._driver.spark()._jvm  # noqa: SLF001 - pyspark has no public access to Hadoop
        assert jvm is not None
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    @contextlib.contextmanager
    def _hadoop(self) -> Iterator[tuple[Callable[[Any], Any], Callable[[str], Any]]]:
        """Two functions: the file system of a Hadoop path, and a Hadoop path from text."""
        spark = self._driver.spark()
        jvm, session = spark._jvm, spark._jsparkSession  # noqa: SLF001
        assert jvm is not None
        try:
            conf, path = session.sessionState().newHadoopConf(), jvm.org.apache.hadoop.fs.Path
            yield lambda file: file.getFileSystem(conf), path
        except (Py4JError, OSError) as error:
            raise QueryFailed(f"cannot access the checkpoints: {first_line(error)}") from error


def is_local(root: str) -> bool:
    """Whether a path is on the local file system."""
    return urlparse(root).scheme in ("", "file")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _list_names(files: Callable[[Any], Any], folder: Any) -> list[str]:
    """Names of a folder's entries; none where it does not exist."""
    file_system = files(folder)
    entries = file_system.listStatus(folder) if file_system.exists(folder) else ()
    return [str(entry.getPath().getName()) for entry in entries]
