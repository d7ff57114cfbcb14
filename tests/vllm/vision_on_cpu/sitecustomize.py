"""torchvision's operators by name: its build for GPUs, whose library does not load here, asks for them when imported.

Python imports this module when a server of these tests starts; a Qwen3.5 that is given no image calls neither.
"""

import torch

for name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
