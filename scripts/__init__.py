"""Programs that work on the checkout itself."""
