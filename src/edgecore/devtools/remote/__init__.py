"""Run and profile programs on other devices."""

from edgecore.devtools.remote.profile import environment_of, profile_on, programs_for, run_there
from edgecore.processes.device import Device, connect

__all__ = ["Device", "connect", "environment_of", "profile_on", "programs_for", "run_there"]
