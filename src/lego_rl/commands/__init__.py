"""One module a command: each puts the rooms together for one purpose. The only place that knows all of them."""
