"""Builds what a Containerfile describes below a folder, since there is no container engine.

Every COPY and every command is carried out for real, with its absolute paths below that folder,
except for packages of the distribution, which are only noted. Dependencies are linked, not
downloaded, so pip finds them installed.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rig.bare_root import BareRoot

_INSTRUCTIONS = frozenset(
    {
        *("ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "VOLUME", "USER", "EXPOSE"),
        *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
)
_LIMIT_S = 120


@dataclass
class Stage:
    """One stage, and what it leaves in its image."""

    base: str
    packages: set[str] = field(default_factory=set)
    env: dict[str, str] = field(default_factory=dict)
    owned: dict[str, str] = field(default_factory=dict)  # folder: the user that it belongs to
    last: dict[str, str] = field(default_factory=dict)  # what later instructions overwrite
    workdir: str = "/"

    def exec_form(self, instruction: str) -> list[str]:
        """The words of ENTRYPOINT, CMD, VOLUME or the command of HEALTHCHECK."""
        words: list[str] = json.loads(self.last[instruction][self.last[instruction].index("[") :])
        return words


@dataclass
class Build:
    """Carries out the instructions of a Containerfile below a folder."""

    root: BareRoot
    context: Path
    prepare: Callable[[Path], None]  # gets the virtual environment as soon as it is there
    env: Mapping[str, str]
    stages: dict[str, Stage] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def carry_out(self, text: str) -> Stage:
        """Carry out all instructions; returns the last stage."""
        stage, arguments = Stage(""), dict[str, str]()
        for instruction, rest in instructions(text):
            match instruction:
                case "ARG":
                    name, _, default = rest.partition("=")
                    arguments[name] = default
                case "FROM":
                    base, _, name = rest.partition(" AS ")
                    base = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base)
                    stage = self.stages[name] = Stage(base)
                case "ENV":
                    stage.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
                case "WORKDIR":
                    stage.workdir = rest
                    self.root.path(rest).mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(stage, shlex.split(rest))
                case "RUN":
                    for command in rest.split("&&"):
                        self._run(stage, command.strip())
                case _:
                    stage.last[instruction] = rest
        return stage

    def _copy(self, stage: Stage, words: list[str]) -> None:
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in self.stages
            assert words[1] == words[2], "all stages share one folder here"
            assert self.root.path(words[1]).exists()
            return
        *sources, target = words
        into = self.root.path(str(Path(stage.workdir, target)))
        for source in sources:
            found = self.context / source
            assert found.exists(), f"{source} is not in the clone"
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(found, into, ignore=ignored)
            else:
                shutil.copy(found, into)

    def _run(self, stage: Stage, command: str) -> None:
        words = shlex.split(command)
        self.ran.append(command)
        match words:
            case ["apt-get", "update"] | ["rm", "-rf", "/var/lib/apt/lists/*"]:
                return
            case ["apt-get", "install", "--yes", "--no-install-recommends", *packages]:
                stage.packages |= set(packages)
                return
            case ["groupadd" | "useradd" as tool, *_]:
                if shutil.which(tool, path=self.env["PATH"]) is None:
                    return  # not Linux: whoever looks at the user skips the test
                etc = self.root.path("/etc")
                etc.mkdir(exist_ok=True)
                for name in ("passwd", "group"):
                    (etc / name).touch()
                self._shell(stage, f"{tool} --prefix {self.root.folder} {command[len(tool) :]}")
                return
            case ["install", "-d", "-m", mode, "-o", user, "-g", _, *folders]:
                stage.owned |= dict.fromkeys(folders, user)
                mapped = [str(self.root.path(folder)) for folder in folders]
                self._shell(stage, shlex.join(["install", "-d", "-m", mode, *mapped]))
                return
            case ["python3", "-m", "venv", venv]:
                # pip is linked like everything else, which takes a tenth of the time
                self._shell(stage, f"{self.root.map(command)} --without-pip")
                self.prepare(self.root.path(venv))
                return
        assert words[0].startswith("/"), f"{words[0]} is not known here"
        self._shell(stage, self.root.map(command))

    def _shell(self, stage: Stage, command: str) -> None:
        folder = self.root.path(stage.workdir) if stage.workdir != "/" else self.root.folder
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env={**self.env, **stage.env},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Containerfile, each with its arguments on one line."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, _, rest = line.strip().partition(" ")
        assert instruction in _INSTRUCTIONS, line
        yield instruction, " ".join(rest.split())
