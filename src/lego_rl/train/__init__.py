"""Training: advantages, losses, batches, the fidelity gate, routing replay and the loop. No HTTP, no sandbox."""
