"""`livejoin --install-completion`, tried in a bash that reads what it wrote."""

import shutil
from pathlib import Path

import pytest

from rig.installed import Installed

BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")


@pytest.fixture(scope="module")
def home(livejoin: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder in which a bash has installed the completion."""
    folder = tmp_path_factory.mktemp("home")
    # a bash of its own, with something to do afterwards: it is recognized by its process
    script = f"{livejoin.livejoin} --install-completion; exit $?"
    done = livejoin.run(str(BASH), "-c", script, HOME=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "bash completion installed" in done.stdout
    return folder


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sta", ["status"]),
        ("token ma", ["make"]),
        ("status --wa", ["--watch"]),
    ],
)
def test_bash_completes_commands_and_options(
    livejoin: Installed, home: Path, words: str, offered: list[str]
) -> None:
    typed = ["livejoin", *words.split(" ")]
    script = f"""
        source "$HOME/.bashrc"
        COMP_WORDS=({" ".join(repr(word) for word in typed)}) COMP_CWORD={len(typed) - 1}
        $(complete -p livejoin | sed 's/.* -F //; s/ .*//') livejoin
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{livejoin.livejoin.parent}:{livejoin.env()['PATH']}"
    done = livejoin.run(str(BASH), "-c", script, HOME=str(home), PATH=path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == offered


def test_installing_it_again_does_not_add_it_twice(livejoin: Installed, home: Path) -> None:
    script = f"{livejoin.livejoin} --install-completion; exit $?"
    assert livejoin.run(str(BASH), "-c", script, HOME=str(home)).returncode == 0
    assert (home / ".bashrc").read_text().count("livejoin.sh") == 1
