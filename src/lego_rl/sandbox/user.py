"""Who everything in a sandbox runs as, in every environment."""

USER = "agent"
UID = 1000
HOME = "/home/agent"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
