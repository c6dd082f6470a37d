"""Factors of the first study and their levels: recipe (what a lab decides), architecture, geometry and scale."""

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

CHECKPOINTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of training after which a checkpoint is kept."""
