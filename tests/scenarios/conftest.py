"""Scenarios are short, so their JVMs start without the second compiler."""

from rig import running

running.conf.update(running.COLD)
