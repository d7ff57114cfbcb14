"""No fork, no patch: verl, its queue and Harbor are installed as they were published, file by file."""

import sysconfig
from pathlib import Path

import pytest

from tests.integration.cluster.installed import changed, digest, distribution, published
from tests.integration.cluster.verl_process import ROOT

VERL_SITE = ROOT / ".cache" / "verl" / "lib" / "python3.12" / "site-packages"
OWN_SITE = Path(sysconfig.get_path("purelib"))
PUBLISHED = {
    "verl": ("0.9.1", "verl", "ac5d58a60188109a7ac0e645112313681536eb51bfce67fa425e343885494af8"),
    "transferqueue": ("0.1.11", "transfer_queue", "9cea282d4990dbfd9cfd5500101442138f329c88eb0ff017b6ff60e3ba218c02"),
    "veomni": ("0.1.12", "veomni", "8415cfef00fc75998858471c42769389e28d4bc421f90b008743e18ecba8ed3a"),
    "harbor": ("0.26.0", "harbor", "d8869512ebe1e8eea41ea097868b581812549717a8e0a19e6e2e7366358aaeb0"),
}
"""Version, folder, and digest of the list of files as it came from the package index; it changes with a version."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_file_is_the_published_one(name: str) -> None:
    version, package, expected = PUBLISHED[name]
    site = OWN_SITE if name == "harbor" else VERL_SITE
    assert distribution(name, site).version == version
    files = published(name, site)
    assert len(files) > 20
    assert not changed(files, site, package)
    assert digest(files) == expected
