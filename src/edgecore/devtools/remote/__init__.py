"""Devices that run programs over ssh, adb or on this machine, and profiles measured there."""

from edgecore.devtools.remote.device import Device, connect
from edgecore.devtools.remote.profile import environment_of, profile_on, programs_for, run_there

__all__ = ["Device", "connect", "environment_of", "profile_on", "programs_for", "run_there"]
