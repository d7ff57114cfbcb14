"""The kit of the gateway's unit tests serves here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "gateway"))
