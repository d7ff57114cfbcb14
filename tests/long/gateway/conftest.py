"""The unit tests' conversations are run here too, many more of them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "unit" / "gateway"))
