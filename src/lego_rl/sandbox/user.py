"""Who everything in a sandbox runs as, in every environment."""

USER = "agent"
UID = 1000
HOME = "/home/agent"
VARIABLES = {"HOME": HOME, "USER": USER, "LANG": "C.UTF-8", "TERM": "dumb"}
"""What every command has in its environment, unless the image says otherwise."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
