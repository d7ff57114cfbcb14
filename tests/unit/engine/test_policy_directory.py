"""A policy directory is complete or refused by name of what is wrong."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from engine_kit import VOCAB, Reference, tokens
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from lego_rl.engine.embedded import EmbeddedEngine, load_policy, save_policy
from lego_rl.engine.policy_dir import inspect_policy
from lego_rl.engine.protocol import Sampling
from lego_rl.errors import ConfigError


def write_companions(folder: Path, words: int = VOCAB) -> Path:
    """A tokenizer of `words` ids and a chat template."""
    folder.mkdir()
    Tokenizer(WordLevel({f"w{number}": number for number in range(words)}, unk_token="w0")).save(
        str(folder / "tokenizer.json")
    )
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.fixture
def saved(tmp_path: Path, moe: Reference) -> Path:
    target = tmp_path / "policy"
    companions = write_companions(tmp_path / "companions")
    save_policy(moe.module.state_dict(), moe.module.config, target, dtype=torch.float32, companions=companions)
    return target


def test_a_saved_policy_loads_as_it_was(saved: Path, moe: Reference) -> None:
    facts = inspect_policy(saved)
    assert (facts.vocab_size, facts.tokenizer_size, facts.context, facts.tied) == (VOCAB, VOCAB, 1024, True)
    assert facts.parameters == sum(weight.numel() for weight in moe.module.parameters())
    assert facts.dtypes == ("F32",)
    assert facts.experts == moe.module.config.num_experts
    assert (saved / "chat_template.jinja").is_file()
    loaded = load_policy(saved, torch.float32).state_dict()
    for name, weight in moe.module.state_dict().items():
        torch.testing.assert_close(loaded[name], weight, rtol=0, atol=0)


async def test_an_engine_runs_from_a_directory(saved: Path, moe: Reference) -> None:
    with EmbeddedEngine.from_directory(saved, version=4) as engine:
        sample = await engine.generate(tokens(20), Sampling(1.0, 8, (), seed=1))
        assert engine.weights_digest() == moe.weights().digest()
    assert sample.weight_versions[0].version == 4
    assert sample.logprobs == pytest.approx(moe.logprobs(sample.prompt_ids, sample.token_ids), abs=2e-5)


def test_bfloat16_takes_two_bytes_a_parameter(tmp_path: Path, saved: Path, moe: Reference) -> None:
    target = tmp_path / "small"
    save_policy(moe.module.state_dict(), moe.module.config, target, dtype=torch.bfloat16, companions=saved)
    facts = inspect_policy(target)
    assert facts.dtypes == ("BF16",)
    assert facts.weight_bytes == 2 * facts.parameters
    assert (target / "model.safetensors").stat().st_size < facts.weight_bytes + 20_000
    assert load_policy(target, torch.float32).dtype == torch.float32
    with EmbeddedEngine.from_directory(target, dtype="bfloat16") as engine:
        assert engine.dtype == torch.bfloat16


def test_saving_again_replaces_and_leaves_nothing_behind(saved: Path, moe: Reference, other_moe: Reference) -> None:
    save_policy(
        other_moe.module.state_dict(),
        moe.module.config,
        saved,
        dtype=torch.float32,
        companions=saved.parent / "companions",
    )
    loaded = load_policy(saved, torch.float32).state_dict()
    torch.testing.assert_close(loaded["model.norm.weight"], other_moe.module.state_dict()["model.norm.weight"])
    assert sorted(path.name for path in saved.parent.iterdir()) == ["companions", "policy"]


def test_saving_what_does_not_fit_leaves_the_old_directory(saved: Path, moe: Reference, dense: Reference) -> None:
    before = (saved / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="does not fit its config"):
        save_policy(dense.module.state_dict(), moe.module.config, saved, dtype=torch.float32, companions=saved)
    assert (saved / "model.safetensors").read_bytes() == before


def edit_config(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changes}))

    return edit


def edit_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    return edit


def write(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def folder_for(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


def shards(index: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_bytes(index)

    return damage


def cut_short(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def bigger_tokenizer(folder: Path) -> None:
    write_companions(folder / "big", VOCAB + 1)
    (folder / "big" / "tokenizer.json").rename(folder / "tokenizer.json")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"config\.json is missing"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer\.json is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"has no model\.safetensors"),
        (write("config.json", b"{"), "is not JSON"),
        (write("config.json", b"[]"), "is not a JSON object"),
        (write("config.json", b"[" * 100_000), "is not JSON"),
        (folder_for("config.json"), "is not JSON"),
        (folder_for("tokenizer.json"), "is not JSON"),
        (shards(b'{"weight_map": 3}'), "which file holds which weight"),
        (shards(b'{"weight_map": {"a": 3}}'), "which file holds which weight"),
        (shards(b"{}"), "which file holds which weight"),
        (edit_weights(lambda weights: weights.update({"model.embed_tokens.weight": torch.zeros(())})), r"shape \[\]"),
        (write("tokenizer.json", b"{}"), "no fast tokenizer"),
        (write("model.safetensors", b"\xff" * 40), "no safetensors file"),
        (cut_short, "is cut short"),
        (edit_config(vocab_size="many"), "vocab_size = 'many'"),
        (edit_config(num_attention_heads=0), "cannot load the policy"),
        (edit_config(hidden_size="wide"), "cannot load the policy"),
        (edit_config(hidden_act="rilu"), "cannot load the policy"),
        (edit_config(model_type="unheard_of"), "cannot load the policy"),
        (write("generation_config.json", b'{"max_new_tokens": "x"}'), "cannot load the policy"),
        (edit_config(vocab_size=VOCAB + 1), r"embedding of shape \[300,"),
        (edit_config(tie_word_embeddings=False), r"no lm_head\.weight"),
        (bigger_tokenizer, "ids up to 300"),
        (edit_weights(lambda weights: weights.pop("model.embed_tokens.weight")), "have no model.embed_tokens"),
        (edit_weights(lambda weights: weights.pop("model.layers.0.self_attn.q_proj.weight")), "missing_keys"),
        (edit_weights(lambda weights: weights.update(extra=torch.zeros(1))), "unexpected_keys"),
        (edit_weights(lambda weights: weights["model.norm.weight"][3:4].fill_(math.nan)), "not finite"),
        (edit_weights(lambda weights: weights["model.norm.weight"][3:4].fill_(math.inf)), "not finite"),
        (
            edit_weights(lambda w: w.update({"model.norm.weight": w["model.norm.weight"].to(torch.int8)})),
            "stored as I8",
        ),
    ],
)
def test_a_damaged_directory_is_refused(
    saved: Path, damage: Callable[[Path], object], named: str, capfd: pytest.CaptureFixture[str]
) -> None:
    damage(saved)
    with pytest.raises(ConfigError, match=named):
        load_policy(saved, torch.float32)
    assert capfd.readouterr() == ("", "")


def test_a_tied_policy_with_another_output_projection_is_refused(saved: Path) -> None:
    edit_weights(lambda weights: weights.update({"lm_head.weight": weights["model.embed_tokens.weight"] + 1}))(saved)
    with pytest.raises(ConfigError, match=r"holds another one|unexpected_keys"):
        load_policy(saved, torch.float32)


@pytest.mark.parametrize("chosen", [0, 99])
def test_a_router_that_cannot_choose_so_many_experts_is_refused(saved: Path, chosen: int) -> None:
    edit_config(num_experts_per_tok=chosen)(saved)
    with pytest.raises(ConfigError, match=f"cannot use {chosen} of"):
        EmbeddedEngine.from_directory(saved)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no policy directory"):
        inspect_policy(tmp_path / "nowhere")


def test_a_sharded_policy_is_read_from_its_index(saved: Path) -> None:
    whole = inspect_policy(saved)
    weights = load_file(saved / "model.safetensors")
    names = sorted(weights)
    parts = {"part-1.safetensors": names[:10], "part-2.safetensors": names[10:]}
    for file, held in parts.items():
        save_file({name: weights[name] for name in held}, saved / file, {"format": "pt"})
    (saved / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {name: file for file, held in parts.items() for name in held}}
    (saved / "model.safetensors.index.json").write_text(json.dumps(index))
    assert inspect_policy(saved) == whole
    assert load_policy(saved, torch.float32) is not None


def test_a_dense_policy_has_no_experts(tmp_path: Path, dense: Reference) -> None:
    target = tmp_path / "dense"
    save_policy(
        dense.module.state_dict(),
        dense.module.config,
        target,
        dtype=torch.float32,
        companions=write_companions(tmp_path / "companions"),
    )
    assert inspect_policy(target).experts == 0
