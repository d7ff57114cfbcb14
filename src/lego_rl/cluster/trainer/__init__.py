"""What this contract adds to verl's trainer: how trials weigh, which loss is in effect, routing replay with FSDP2.

Invariant: every number is computed by verl's own functions; what is added is which rows count, and how much.
"""

import verl  # noqa: F401  # its entry point imports modules of this package, which must not be half imported by then
