"""The storm: `make faults CASE=storm SEED=7 MINUTES=5`. The same seed repeats the same actions."""

import os
from pathlib import Path

import pytest

from rig.figures import Figures
from rig.storm import run, storm_world
from rig.storm_actions import KINDS
from rig.storm_validate import Validate

SEED = int(os.environ.get("FAULTS_SEED") or 20261116)
MINUTES = float(os.environ.get("FAULTS_MINUTES") or 30)


@pytest.mark.timeout(3600 + 120 * MINUTES)  # the first action of each kind may take longer
def test_storm_of_everything(tmp_path: Path, case: Figures) -> None:
    case.seeded(SEED)
    print(f"seed {SEED}, {MINUTES:g} min")
    with storm_world(tmp_path, SEED) as storm:
        done = run(storm, SEED, MINUTES, KINDS, Validate())
        case.note(
            f"{done} actions in {MINUTES:g} min, landed: "
            + ", ".join(f"{count} × {kind}" for kind, count in sorted(storm.landed.items()))
            + f"; changelogs at one time: at most {len(storm.sampler.most_changelogs)}"
            + f"; shown as stale: {len(storm.reported_s)}, within {max(storm.reported_s):.1f} s"
            + "; a broker with auto.create.topics.enable"
        )
        print(case.notes[-1])
        assert storm.sampler.samples["topics"] > 60 * MINUTES / 10
