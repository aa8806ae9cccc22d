"""Class data sharing archives: with one, a JVM starts in half the time.

An archive belongs to one Java and one set of jars. The JVM checks that itself, and ignores an
archive that does not match.
"""

import hashlib
from pathlib import Path

from livejoin.runtime import processes

_CONTENT_VERSION = 2  # increment when the run that creates an archive loads more classes


def archive_path(kind: str, java: str, *jars: Path) -> Path:
    """Path of the archive for this Java and these jars; it may not exist."""
    java = str(Path(java).resolve())
    parts = [str(_CONTENT_VERSION), java, *(f"{jar} {jar.stat().st_size}" for jar in sorted(jars))]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return processes.cache_folder() / "classes" / f"{kind}-{fingerprint}.jsa"


def jvm_options(archive: Path, *, make: bool = False) -> list[str]:
    """JVM options that use an archive, or create it when the JVM exits."""
    quiet = "-Xlog:cds=off,cds+dynamic=off,dynamic+cds=off"
    if make:
        archive.parent.mkdir(parents=True, exist_ok=True)
        return [f"-XX:ArchiveClassesAtExit={archive}", quiet]
    return [f"-XX:SharedArchiveFile={archive}", quiet] if archive.exists() else []
