"""The comparison each time that a storm has settled: O1 to O7."""

from dataclasses import dataclass

from rig import comparing, oracle
from rig.running import until
from rig.sampling import Resources, resources
from rig.storm import SETTLED_S, Storm
from rig.world import ExpectNothingLeft

# Viewers come and go, and each generation has its own consumers and producers.
MORE_HELD = Resources(threads=30, handles=40, processes=0)
RETURNED_S = 60


@dataclass(frozen=True)
class Validate:
    """Waits until the system has settled, and checks O1 to O7."""

    def do(self, storm: Storm) -> None:
        one = storm.world
        storm.expect_reported()  # first, since an unnoticed fault looks settled
        with storm.paused_traffic():
            storm.settle()
            pair, join = storm.choice
            comparing.expect_equal(one.live, one.watcher, one.producers[pair], join, SETTLED_S)
            one.mark_recovered()
            truth = oracle.expected(one.producers[pair].acknowledged, join)
            for viewer in storm.viewers:
                comparing.expect_seen(viewer, truth)
            assert storm.settled(), one.status()
            states = [row["state"] for row in one.generations()]
            assert states.count("live") == 1, states
            ExpectNothingLeft().do(one)
            self._expect_outcomes(storm)
            self._expect_no_more_held(storm)
        changelogs = storm.sampler.most_changelogs
        assert len(changelogs) <= 3, f"at one time there were changelogs of {sorted(changelogs)}"
        dropped = sum(viewer.dropped for viewer in storm.watchers)
        assert not dropped, [viewer.closed for viewer in storm.watchers]
        for viewer in storm.watchers:
            viewer.replaying = False

    def _expect_no_more_held(self, storm: Storm) -> None:
        """Compare with the first check of this process; releasing resources may take a moment."""
        pid = storm.world.live.pid
        first = storm.resources_by_pid.setdefault(pid, resources(pid))
        until(
            lambda: not resources(pid).exceeds(first, MORE_HELD),
            f"{resources(pid)} are those of before, {first}",
            RETURNED_S,
        )
        listed = storm.world.kafka.admin.list_consumer_groups(request_timeout=15).result()
        groups = [one.group_id for one in listed.valid]
        storm.groups = len(groups) if storm.groups is None else storm.groups
        assert len(groups) <= storm.groups, groups
        print(f"held: {resources(pid)}, {len(groups)} groups")

    def _expect_outcomes(self, storm: Storm) -> None:
        rows = storm.world.live.table("control_raw").values()
        found = {row["offset"]: row for row in rows}
        for offset in storm.invalid_offsets:
            assert found[offset]["outcome"] == "rejected", found[offset]
            assert found[offset]["reason"], found[offset]
        for offset in storm.valid_offsets:
            assert found[offset]["outcome"] not in ("rejected", "failed"), found[offset]
