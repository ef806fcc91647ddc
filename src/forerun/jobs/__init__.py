"""Running programs: one command, timed, on this machine."""

from forerun.jobs.command import Command, Timing, check_program, time_command
from forerun.jobs.marker import Marker

__all__ = ["Command", "Marker", "Timing", "check_program", "time_command"]
