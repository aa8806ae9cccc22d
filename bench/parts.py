"""Benchmarks with parts: selects parts, prints a table of each, writes all as JSON."""

import argparse
import json
from collections.abc import Callable, Collection
from pathlib import Path

Figures = dict[str, float]

_OUT = Path(__file__).parent / "out"


def run(
    parser: argparse.ArgumentParser,
    parts: Collection[str],
    measure: Callable[[str, argparse.Namespace], Figures],
    name: str,
) -> None:
    """Measure the selected parts, print them, and merge them into the stored results."""
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all by default")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"there is no part {min(unknown)!r}")
    out = _OUT / f"{name}.json"
    figures: dict[str, Figures] = json.loads(out.read_text()) if out.exists() else {}
    for part in options.parts or parts:
        figures[part] = measure(part, options)
        print(f"\n{part}")
        for what, figure in figures[part].items():
            print(f"  {what:44}{figure:12,.{0 if figure >= 100 else 2}f}", flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(figures, indent=1) + "\n")
