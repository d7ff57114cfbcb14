"""Files that hold secrets by custom: an agent is not handed them, whether or not git tracks them."""

import re
from fnmatch import fnmatch
from pathlib import PurePosixPath

_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".yarnrc.yml",
    ".git-credentials", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials.json", "client_secret*.json",
    "service-account*.json", "service_account*.json", "secrets.y*ml", "secrets.json", "secrets.toml", "*.tfvars",
    "*.tfstate", "terraform.tfstate*", ".dockercfg", "kubeconfig",
)  # fmt: skip
_FOLDERS = (".ssh", ".aws", ".gnupg", ".azure", ".gcloud", ".kube")
_EXAMPLES = re.compile(r"[._-](example|sample|template|dist|defaults?|test)(\.|$)|\.pub$", re.IGNORECASE)
"""Names of files that show what such a file looks like, and of public keys."""


def is_secret(path: str) -> bool:
    """Whether a file holds secrets, by its name alone.

    Args:
        path: Relative to the workspace, POSIX form.
    """
    parts = PurePosixPath(path.lower()).parts
    if any(part in _FOLDERS for part in parts[:-1]):
        return True
    return any(fnmatch(parts[-1], name) for name in _NAMES) and not _EXAMPLES.search(parts[-1])
