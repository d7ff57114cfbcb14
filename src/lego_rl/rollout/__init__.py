"""Rollouts: trials, retries, resume and the fault table. Everyone else only builds specifications."""

import os

# Before any module here imports Harbor: its usage reports, and the price list that LiteLLM would fetch, need a network.
os.environ["HARBOR_TELEMETRY"] = "off"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
