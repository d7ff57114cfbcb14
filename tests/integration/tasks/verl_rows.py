"""What stock verl's dataset makes of an index, in verl's own environment. Arguments: index, policy, cache folder."""

import json
import sys

from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset

index, policy, cache = sys.argv[1:]
config = OmegaConf.create({"cache_dir": cache, "max_prompt_length": 256, "filter_overlong_prompts": True})
rows = RLHFDataset(index, AutoTokenizer.from_pretrained(policy), config)
kept = ("data_source", "ability", "reward_model", "extra_info", "raw_prompt", "repo")
print(json.dumps([{name: rows[place][name] for name in kept} for place in range(len(rows))]))
