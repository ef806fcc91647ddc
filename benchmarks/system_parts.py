"""Real parts that the system tests start and some benchmarks need: clusters and images."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests" / "system"))

import images
import slurm

__all__ = ["images", "slurm"]
