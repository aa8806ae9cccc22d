"""The settings of commands that use Kafka: those given, or of the running demo if none are."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from livejoin.runtime import running_demo

if TYPE_CHECKING:
    from livejoin.config.settings import Settings


class ChosenSettings(NamedTuple):
    """Settings that have not been read yet, and where they come from."""

    load: "Callable[[], Settings]"
    source: str
    is_demo: bool


def choose_settings(config: Path | None) -> ChosenSettings:
    """Choose the settings file and the environment, or a running demo if neither says anything."""
    from livejoin.config import settings  # noqa: PLC0415 - slow to import

    if config is not None:
        return ChosenSettings(lambda: settings.load(config), str(config), is_demo=False)
    demo = None if settings.environment_variables() else running_demo.find()
    if demo is not None:
        source = f"those of the running demo, whose broker is at {demo.address}"
        return ChosenSettings(lambda: settings.load(**demo.settings), source, is_demo=True)
    return ChosenSettings(settings.load, "defaults and environment", is_demo=False)
