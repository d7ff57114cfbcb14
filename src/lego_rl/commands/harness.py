"""``lego-rl harness``: install, list and verify the harness bundles."""

from rich.console import Console
from rich.table import Table

from lego_rl.harness import registry


def install(name: str) -> None:
    """Install a harness and say what came of it.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It cannot be installed.
    """
    console = Console()
    with console.status(f"installing {name} (once; a few hundred megabytes)"):
        bundle = registry.install(name)
    size = _megabytes(bundle.size_bytes)
    console.print(f"{bundle.name} {bundle.version} · {size} · sha256 {bundle.hash[:12]} · {bundle.licence}")


def verify(name: str) -> None:
    """Hash every file of an installed bundle and compare with what was installed.

    Raises:
        ConfigError: The name is unknown.
        HarnessError: It is not installed, or a file was altered.
    """
    bundle = registry.verify(name)
    Console().print(f"{bundle.name} {bundle.version} · unaltered · sha256 {bundle.hash}")


def show() -> None:
    """Print every known harness, installed or not."""
    bundles = registry.installed()
    table = Table("harness", "version", "size", "sha256", "licence", "state", box=None, pad_edge=False)
    for name in registry.REGISTRY:
        wanted = registry.make(name).spec
        own = {bundle.path.parent.name: bundle for bundle in bundles if bundle.name == name}
        if wanted.folder not in own:
            table.add_row(name, wanted.version, "", "", "", f"not installed: lego-rl harness install {name}")
        for folder, bundle in own.items():
            state = "installed" if folder == wanted.folder else "installed, no longer pinned"
            table.add_row(name, bundle.version, _megabytes(bundle.size_bytes), bundle.hash[:12], bundle.licence, state)
    Console().print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
