"""What runs stock verl on a machine without a GPU: platform, engine, inference server and weight transfer.

For tests and for trying a cluster's set-up: ``VERL_PLATFORM=cpu`` chooses the platform, and a recipe's overrides name
the rest. Nothing here is used where there is a GPU.
"""

import verl  # noqa: F401  # its entry point imports modules of this package, which must not be half imported by then
