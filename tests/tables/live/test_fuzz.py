"""D3, the short run."""

from tables.fuzzing import fuzz


def test_fuzzed_frames_change_nothing() -> None:
    fuzz(600)  # tests/faults sends 100,000
