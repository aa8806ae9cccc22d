"""Processes started here are short-lived."""

from rig import running

running.conf.update(running.COLD)
