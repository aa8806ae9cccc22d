"""`docs/your-kafka.md` as the tests run it: its settings and its commands."""

import re
from pathlib import Path

from rig.secure import PASSWORD

PAGE: str = (Path(__file__).parents[2] / "docs" / "your-kafka.md").read_text()
BLOCKS: list[str] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS: list[str] = re.findall(r"(?m)^ {4}(livejoin .*)$", PAGE)
# for `livejoin run`, for `livejoin serve`, and to take the rights away
PLAN, PLAN_OF_SERVER, REMOVAL = (c for c in COMMANDS if c.startswith("livejoin topics plan "))
# secrets by the names of their files
PASSWORDS = {"kafka-password": PASSWORD, "events-password": "canary-events-2b90"}


def command(name: str) -> str:
    """The only command line of the page with this command."""
    (found,) = [line for line in COMMANDS if line.split()[1] == name]
    return found


def write_settings(folder: Path, certificate: str, key: str) -> Path:
    """All settings of the page in one file, and the files that they name."""
    (folder / "livejoin.pem").write_text(certificate)
    (folder / "livejoin.key").write_text(key)
    for name, password in PASSWORDS.items():
        (folder / name).write_text(password)
    file = folder / "livejoin.yaml"
    file.write_text(re.sub(r"/etc/livejoin|/run/secrets", str(folder), "".join(BLOCKS)))
    return file
