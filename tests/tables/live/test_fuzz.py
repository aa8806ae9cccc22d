"""D3 in its short form."""

from tables.fuzzing import fuzz


def test_fuzzed_frames_change_nothing() -> None:
    fuzz(600)  # 100,000 of them are one of the long tests
