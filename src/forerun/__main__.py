"""`python -m forerun` is `forerun`."""

import sys

from forerun.cli import main

sys.exit(main())
