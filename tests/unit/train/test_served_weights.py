"""Weights on their way to a server: named as its checkpoint names them, and the same digest on both sides."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from tiny_moe import policy_directory

from lego_rl.engine.embedded.policy import load_policy
from lego_rl.train.served import checkpoint_names, checkpoint_tensors, folder_digest, tensors_digest


def test_a_module_is_named_and_cut_as_its_checkpoint_is(tmp_path: Path) -> None:
    folder = policy_directory(tmp_path / "policy")
    stored = load_file(folder / "model.safetensors")
    found = dict(checkpoint_tensors(load_policy(folder, torch.float32).state_dict(), checkpoint_names(folder)))
    assert set(found) == set(stored)
    assert all(torch.equal(found[name].float(), stored[name].float()) for name in stored)


def test_the_digest_of_the_tensors_is_that_of_the_folder_and_any_change_shows(tmp_path: Path) -> None:
    folder = policy_directory(tmp_path / "policy")
    module = load_policy(folder, torch.float32)
    names = checkpoint_names(folder)

    def digest(dtype: torch.dtype) -> str:
        named = dict(checkpoint_tensors(module.state_dict(), names))
        return tensors_digest((name, named[name].to(dtype)) for name in sorted(named))

    assert digest(torch.float32) == folder_digest(folder, "float32")
    assert digest(torch.bfloat16) == folder_digest(folder, "bfloat16") != folder_digest(folder, "float32")
    with torch.no_grad():
        next(module.parameters())[0, 0] += 1.0
    assert digest(torch.float32) != folder_digest(folder, "float32")
