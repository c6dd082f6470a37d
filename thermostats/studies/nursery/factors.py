"""The factors of the nursery and their levels: recipe (what a lab decides), architecture, geometry and scale."""

from __future__ import annotations

from dataclasses import dataclass

RECIPE: dict[str, tuple[str, ...]] = {
    "optimiser": ("adamw", "adam", "sgd", "muon"),
    "init": ("normal", "depth_scaled", "small_wang", "fan_in"),
    "decay": ("low", "high"),
    "schedule": ("cosine", "constant"),
    "peak": ("low", "high"),
    "dropout": ("none", "tenth"),
    "corpus": ("english", "synthetic"),
}
"""What makes up a heritage. `adam` has no weight decay: there the factor `decay` does not exist, its level is none."""

DECAY = {"low": 0.01, "high": 0.3, "none": 0.0}
"""Weight decay λ, in AdamW's units: per step, matrices shrink by the factor 1 - (AdamW's learning rate)·λ."""
PEAK = {"low": 1.0, "high": 3.0}
"""Peak learning rate over the optimiser's own base rate."""
DROPOUT = {"none": 0.0, "tenth": 0.1}
"""Dropout probability, wherever the configuration class has one (LLaMA and OLMo 2: in attention only)."""


@dataclass(frozen=True)
class Build:
    """An architecture as built: which configuration class stands for a family, norm place and position scheme."""

    architecture: str
    norm: str
    position: str
    model_type: str


BUILDS = (
    Build("gpt2", "pre", "learned", "gpt2"),
    Build("gpt2", "pre", "none", "gpt2"),
    Build("gpt2", "post", "learned", "openai-gpt"),
    Build("gpt2", "post", "none", "openai-gpt"),
    Build("opt", "pre", "learned", "opt"),
    Build("opt", "pre", "none", "opt"),
    Build("opt", "post", "learned", "opt"),
    Build("opt", "post", "none", "opt"),
    Build("gpt_neox", "pre", "rotary", "gpt_neox"),
    Build("llama", "pre", "rotary", "llama"),
    Build("llama", "pre", "none", "smollm3"),
    Build("llama", "output", "rotary", "olmo2"),
)
"""What can be built from configuration classes alone. `none`: the learned table is held at zero, or no layer rotates.

GPT-NeoX is the parallel block and exists with norms before and rotary positions only; norms after (`output`: on what a
sub-block writes, with norms on queries and keys) are GPT-1 for GPT-2 and OLMo 2 for LLaMA.
"""

TIED = (True, False)
N_LAYERS = (2, 4, 9, 20)
"""L, about equal steps of its logarithm; 20 is the smallest depth at which five phases can be distinguished (C15)."""
SHAPES = ((32, 4), (32, 8), (32, 16), (72, 6), (72, 12), (72, 24))
"""(width d, head width d_h); H = d/d_h, so that head density rho = H/d_h is 2, 1/2 and 1/8 at either width."""

CONTEXT = 128
"""Tokens in a training window."""
BATCH = 4
"""Windows in a step."""
STEPS = 600
"""Steps of a model's training at budget 1: 307,200 tokens."""
WARMUP = 0.05
"""Share of the steps over which the learning rate rises from 0 to its peak."""
CHECKPOINTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of training after which a checkpoint is kept."""
TUNING = 0.3
"""Steps of fine-tuning on the other corpus, as a share of the steps of training."""
