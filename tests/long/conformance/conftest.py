"""What is expected of each harness is the integration tests' table."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "integration" / "conformance"))
