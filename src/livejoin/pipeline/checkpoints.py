"""Checkpoints of generations, on whatever file system Hadoop knows: what is there, how far, gone.

What is inside belongs to Spark; only its logs of finished batches are read here.
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

_METADATA = "metadata"  # the first file of a checkpoint
CommittedOffsets = Mapping[str, Mapping[int, int]]  # by topic and partition: the next offset


class Checkpoints:
    """All checkpoints of one livejoin: a folder with one for each generation."""

    def __init__(self, session: SparkDriver, root: str) -> None:
        self._session = session
        self.root = root.rstrip("/")

    def path(self, generation: int | str) -> str:
        """Where a generation's is, or one by another name."""
        return f"{self.root}/{generation}"

    def generations(self) -> list[int]:
        """The generations that left one."""
        if is_local(self.root):  # known before there is a JVM
            folder = Path(urlparse(self.root).path)
            names = [one.name for one in folder.iterdir()] if folder.exists() else []
        else:
            with self._hadoop() as (files, path):
                names = _list_names(files, path(self.root))
        return sorted(int(name) for name in names if name.isdecimal())

    def delete(self, generation: int | str) -> None:
        """Remove a generation's."""
        with self._hadoop() as (files, path):
            where = path(self.path(generation))
            files(where).delete(where, True)  # noqa: FBT003 - Java has no names for arguments

    def reset(self, generation: int | str) -> None:
        """Remove all of it but that there is one."""
        with self._hadoop() as (files, path):
            for name in _list_names(files, path(self.path(generation))):
                if name != _METADATA:
                    where = path(f"{self.path(generation)}/{name}")
                    files(where).delete(where, True)  # noqa: FBT003 - as above

    def committed_offsets(self, generation: int | str) -> CommittedOffsets | None:
        """Up to where finished batches have read; None where there is no checkpoint."""
        with self._hadoop() as (files, path):
            known = path(f"{self.path(generation)}/{_METADATA}")
            if not files(known).exists(known):
                return None
            if not _is_json(self._read_text(files(known).open(known))):
                raise GenerationUnrecoverable("its checkpoint has unreadable metadata")
            ended = _list_names(files, path(f"{self.path(generation)}/commits"))
            last = max((int(name) for name in ended if name.isdecimal()), default=None)
            if last is None:
                return {}
            where = path(f"{self.path(generation)}/offsets/{last}")
            if not files(where).exists(where):
                raise GenerationUnrecoverable(f"its checkpoint has no offsets of batch {last}")
            text = self._read_text(files(where).open(where))
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
        jvm = self._session.spark()._jvm  # noqa: SLF001 - pyspark has no other way to Hadoop
        assert jvm is not None
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    @contextlib.contextmanager
    def _hadoop(self) -> Iterator[tuple[Callable[[Any], Any], Callable[[str], Any]]]:
        """The file system of a path and paths, as Hadoop knows them: not every one is local."""
        spark = self._session.spark()
        jvm, session = spark._jvm, spark._jsparkSession  # noqa: SLF001
        assert jvm is not None
        try:
            conf, path = session.sessionState().newHadoopConf(), jvm.org.apache.hadoop.fs.Path
            yield lambda where: where.getFileSystem(conf), path
        except (Py4JError, OSError) as error:
            raise QueryFailed(f"checkpoints are out of reach: {first_line(error)}") from error


def is_local(root: str) -> bool:
    """Whether a path is one of this machine's."""
    return urlparse(root).scheme in ("", "file")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _list_names(files: Callable[[Any], Any], folder: Any) -> list[str]:
    """What stands in a folder; nothing where there is none."""
    here = files(folder)
    found = here.listStatus(folder) if here.exists(folder) else ()
    return [str(one.getPath().getName()) for one in found]
