"""What is locked: all has a checksum, cached jars have theirs, nothing is known to be weak.

`make audit` runs it. The database of weaknesses is OSV's. Where it cannot be reached that is said,
loudly, and is no failure: the rest has been checked all the same.
"""

import argparse
import hashlib
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from livejoin.runtime import jars

ROOT = Path(__file__).parents[2]
LOCKS = tuple(ROOT / f"requirements{part}.lock" for part in ("", "-build", "-run"))
SERVICE = "https://api.osv.dev/v1/querybatch"
_ANSWER_S = 30
_AT_ONCE = 500


class Locked(NamedTuple):
    """One thing in one version, as the database calls it."""

    ecosystem: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Unreachable(Exception):
    """The database does not answer."""


def packages(text: str) -> tuple[list[Locked], list[str]]:
    """The packages of a lock file, and what is wrong with it."""
    found, wrong = [], []
    for entry in re.split(r"\n(?=\S)", text.replace("\\\n", " ").strip()):
        line = " ".join(entry.split())
        if not line or line.startswith("#"):
            continue
        pinned = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", line)
        if pinned is None:
            wrong.append(f"{line[:60]}: no version is pinned")
        elif not re.search(r"--hash=sha256:[0-9a-f]{64}\b", line):
            wrong.append(f"{pinned[1]}: no sha256")
        else:
            found.append(Locked("PyPI", pinned[1], pinned[2]))
    if "://" in text:
        wrong.append("an address stands in it: it would not work behind a mirror")
    return found, wrong


def wrong_jars(locked: Iterable[jars.Jar]) -> list[str]:
    """Locked jars without a checksum, and cached ones that are not what was locked."""
    wrong = []
    for jar in locked:
        if not re.fullmatch(r"[0-9a-f]{64}", jar.sha256):
            wrong.append(f"{jar.coordinate}: no sha256")
        elif jar.file.exists():
            got = hashlib.sha256(jar.file.read_bytes()).hexdigest()
            if got != jar.sha256:
                wrong.append(f"{jar.file}: its sha256 is {got}, not {jar.sha256}; remove it")
    return wrong


def maven(jar: jars.Jar) -> Locked:
    """A jar as the database calls it."""
    group, name, version = jar.coordinate.split(":")
    return Locked("Maven", f"{group}:{name}", version)


def weaknesses(locked: Sequence[Locked], service: str) -> dict[Locked, list[str]]:
    """What is known to be weak, with the names of the weaknesses."""
    found = {}
    for start in range(0, len(locked), _AT_ONCE):
        some = locked[start : start + _AT_ONCE]
        for one, result in zip(some, _asked(some, service), strict=True):
            if names := [weakness["id"] for weakness in result.get("vulns", ())]:
                found[one] = names
    return found


def _asked(some: Sequence[Locked], service: str) -> list[dict[str, list[dict[str, str]]]]:
    queries = [
        {"package": {"ecosystem": one.ecosystem, "name": one.name}, "version": one.version}
        for one in some
    ]
    body = json.dumps({"queries": queries}).encode()
    request = urllib.request.Request(service, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            results = json.load(answer)["results"]
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(str(getattr(error, "reason", None) or error)) from error
    if not isinstance(results, list) or len(results) != len(some):
        raise Unreachable("it answers something else")
    return results


def audit(service: str) -> int:
    """Check everything; the exit code."""
    wrong: list[str] = []
    everything: list[Locked] = []
    for file in LOCKS:
        found, bad = packages(file.read_text())
        everything += [
            one for one in found if one not in everything
        ]  # a part of it is locked twice
        wrong += [f"{file.name}: {one}" for one in bad]
    locked = jars.read_lock_file()
    cached = [jar for jar in locked if jar.file.exists()]
    wrong += wrong_jars(locked)
    print(f"{len(everything)} packages and {len(locked)} jars are locked by sha256")
    print(f"{len(cached)} of the jars are in the cache")
    everything = list(dict.fromkeys([*everything, *map(maven, locked)]))
    try:
        weak = weaknesses(everything, service)
    except Unreachable as error:
        print(
            f"WARNING: {len(everything)} packages and jars were NOT checked for known weaknesses:"
            f" the database cannot be reached ({error})",
            file=sys.stderr,
        )
    else:
        wrong += [f"{one} is known to be weak: {', '.join(names)}" for one, names in weak.items()]
        print(f"{len(everything) - len(weak)} of {len(everything)} have no known weakness")
    for one in wrong:
        print(f"audit: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service", default=SERVICE, help="another address of the database")
    sys.exit(audit(parser.parse_args().service))
