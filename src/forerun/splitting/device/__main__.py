"""`python -m forerun.splitting.device`, or on a board `python3 device` where the folder lies."""

import os
import sys
from pathlib import Path

# Before numpy is imported: its linear algebra would start a thread a core, and none is used here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if not __package__:  # the folder itself was named: its modules are a package all the same
    _here = Path(__file__).resolve().parent
    sys.path[0] = str(_here.parent)
    __package__ = _here.name
    __import__(__package__)

from .command import main

if __name__ == "__main__":
    sys.exit(main())
