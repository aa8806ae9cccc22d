"""What is started here runs for a short time."""

from rig import running

running.conf.update(running.COLD)
