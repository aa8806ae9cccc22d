"""The Python examples of the documents that use the client, as written."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_USES_CLIENT = re.compile(
    r"^(from livejoin import client|(from|import) livejoin\.client)", re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    """A block of Python, and where it is."""

    page: str
    number: int  # on that page, from 1
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


def examples() -> list[Example]:
    """Return every block that uses the client, of the README, of `docs/` and of `deploy/`."""
    pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    pages += sorted(ROOT.glob("deploy/**/*.md"))
    return [
        Example(str(page.relative_to(ROOT)), number, text)
        for page in pages
        for number, text in enumerate(_BLOCK.findall(page.read_text()), 1)
        if _USES_CLIENT.search(text)
    ]
