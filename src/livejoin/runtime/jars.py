"""The jars of Spark's Kafka connector and of the embedded broker: locked, cached per user.

A further group, an identity provider, is for tests only.

Apache Ivy, which is part of the pyspark wheel, resolves their coordinates. `jars.lock` contains the
sha256 of each. It is checked before a jar enters the cache, so later starts resolve nothing.

Class data sharing archives belong to one Java and one set of jars. With one, a JVM starts in half
the time.
"""

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

from livejoin.errors import MachineError
from livejoin.runtime import processes

Group = Literal["spark", "broker", "oidc"]
RUNTIME_GROUPS: tuple[Group, ...] = (
    "spark",
    "broker",
)  # of livejoin itself, without those of the tests
LOCK = Path(__file__).with_name("jars.lock")

# Direct dependencies: group, coordinate, and whether to resolve transitive ones. The connector is a
# release behind pyspark until its own is published.
WANTED: tuple[tuple[Group, str, bool], ...] = (
    ("spark", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", False),
    ("spark", "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0", False),
    ("spark", "org.apache.kafka:kafka-clients:3.9.2", False),
    ("spark", "org.apache.commons:commons-pool2:2.12.1", False),
    ("broker", "org.apache.kafka:kafka_2.13:4.3.1", True),
    ("oidc", "no.nav.security:mock-oauth2-server:6.0.2", True),
)
_RESOLVE_S = 900  # 50 MB over a slow connection
_ARCHIVE_VERSION = 2  # increment when the run that creates an archive loads more classes


@dataclass(frozen=True)
class Jar:
    """One locked jar."""

    group: Group
    coordinate: str
    sha256: str

    @property
    def file(self) -> Path:
        """Its path in the cache."""
        return processes.cache_folder() / "jars" / f"{self.coordinate.replace(':', '--')}.jar"


def read_lock_file() -> list[Jar]:
    """All jars of the lock file."""
    lines = (
        line.split() for line in LOCK.read_text().splitlines() if line and not line.startswith("#")
    )
    return [Jar(group, coordinate, sha256) for group, coordinate, sha256 in lines]  # type: ignore[arg-type]


def jars(group: Group) -> list[Path]:
    """The jars of a group; missing ones are downloaded first."""
    wanted = [jar for jar in read_lock_file() if jar.group == group]
    missing = [jar for jar in wanted if not jar.file.exists()]
    if missing:
        processes.print_progress(f"Downloading {len(missing)} jars for {group}, once per user …")
        _download(missing)
    return [jar.file for jar in wanted]


def _download(missing: list[Jar]) -> None:
    folder = processes.cache_folder() / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        found = _resolve(((jar.group, jar.coordinate, False) for jar in missing), Path(work))
        for jar in missing:
            file = found.get(jar.coordinate)
            if file is None:
                raise MachineError(
                    f"{jar.coordinate} was not found",
                    hint="Check the network, or LIVEJOIN_IVY_SETTINGS for a mirror.",
                )
            if (got := hashlib.sha256(file.read_bytes()).hexdigest()) != jar.sha256:
                raise MachineError(
                    f"{jar.coordinate} has sha256 {got}, not {jar.sha256}",
                    hint="The repository served another file than the locked one; do not use it.",
                )
            file.rename(jar.file)  # last: a jar under its final name is complete and verified


def lock(*groups: Group) -> None:
    """Resolve these groups, or all, with their dependencies and update the lock file."""
    chosen = groups or get_args(Group)
    with tempfile.TemporaryDirectory() as work:
        lines = [
            f"{jar.group} {jar.coordinate} {jar.sha256}"
            for jar in read_lock_file()
            if jar.group not in chosen
        ]
        for group in chosen:
            found = _resolve((w for w in WANTED if w[0] == group), Path(work) / group)
            lines += [
                f"{group} {coordinate} {hashlib.sha256(file.read_bytes()).hexdigest()}"
                for coordinate, file in sorted(found.items())
            ]
    LOCK.write_text("# made by `make lock`: group, coordinate, sha256\n" + "\n".join(lines) + "\n")


def archive_path(kind: str, java: str, *files: Path) -> Path:
    """Path of the class archive for this Java and these jars; it may not exist.

    The JVM itself checks that an archive matches, and ignores one that does not.
    """
    java = str(Path(java).resolve())
    parts = [
        str(_ARCHIVE_VERSION),
        java,
        *(f"{file} {file.stat().st_size}" for file in sorted(files)),
    ]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return processes.cache_folder() / "classes" / f"{kind}-{fingerprint}.jsa"


def archive_options(archive: Path, *, make: bool = False) -> list[str]:
    """JVM options that use a class archive, or create it when the JVM exits."""
    quiet = "-Xlog:cds=off,cds+dynamic=off,dynamic+cds=off"
    if make:
        archive.parent.mkdir(parents=True, exist_ok=True)
        return [f"-XX:ArchiveClassesAtExit={archive}", quiet]
    return [f"-XX:SharedArchiveFile={archive}", quiet] if archive.exists() else []


def _resolve(wanted: Iterable[tuple[Group, str, bool]], work: Path) -> dict[str, Path]:
    """Download coordinates, some with their dependencies, by Ivy; the files by coordinate."""
    work.mkdir(parents=True, exist_ok=True)
    wanted = list(wanted)
    # with transitive dependencies, the number of jars is known at the end only
    total = "" if any(transitive for *_, transitive in wanted) else f"/{len(wanted)}"
    dependencies = []
    for _, coordinate, with_dependencies in wanted:
        organisation, name, revision = map(quoteattr, coordinate.split(":"))
        dependencies.append(
            f'<dependency org={organisation} name={name} rev={revision} conf="default"'
            f' transitive="{str(with_dependencies).lower()}"/>'
        )
    request = work / "ivy.xml"
    request.write_text(
        '<ivy-module version="2.0"><info organisation="livejoin" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )
    settings = os.environ.get("LIVEJOIN_IVY_SETTINGS")
    command = [
        *(
            processes.find_java(),
            "-jar",
            str(_ivy_jar()),
            "-ivy",
            str(request),
            "-cache",
            str(work / "cache"),
        ),
        *(("-settings", settings) if settings else ()),
        *("-types", "jar", "bundle"),  # some of the broker's jars have the packaging "bundle"
        *("-retrieve", f"{work}/out/[organisation]--[module]--[revision].[ext]"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = []
    started = 0
    with process:
        for line in process.stdout or ():
            output.append(line)
            if line.startswith("downloading"):
                started += 1
                name = line.split()[1].rpartition("/")[2]
                processes.print_progress(f"  {started}{total} {name}")
        process.wait(_RESOLVE_S)
    if process.returncode != 0:
        raise MachineError(
            "the jars could not be resolved: " + "".join(output[-12:]).strip(),
            hint="Check the network, or name a mirror's Ivy settings file"
            " in LIVEJOIN_IVY_SETTINGS.",
        )
    return {file.stem.replace("--", ":"): file for file in (work / "out").iterdir()}


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise MachineError(
            "pyspark is not installed",
            hint="Install livejoin with its dependencies, not with `pip install --no-deps` alone.",
        )
    return next((Path(spark.origin).parent / "jars").glob("ivy-*.jar"))
