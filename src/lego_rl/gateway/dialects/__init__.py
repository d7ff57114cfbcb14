"""One module a wire format."""
