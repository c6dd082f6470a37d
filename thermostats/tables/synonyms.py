"""What other people call our columns, the likeliest name first."""

from __future__ import annotations

from collections.abc import Sequence

from thermostats.tables.labels import spelling

SYNONYMS = {
    "model_id": "model model_name name hf_id id checkpoint",
    "heritage": "lab labs organisation organization org company owner vendor developer group",
    "family": "families series",
    "prompt_id": "prompt prompts prompt_name text_id text",
    "layer": "block layer_no layer_idx layer_index layer_id",
    "n_layers": "layers depth num_hidden_layers num_layers n_layer blocks l",
    "n_heads": "heads num_attention_heads num_heads n_head h",
    "d_head": "head_dim",
    "d_model": "hidden hidden_size width dim n_embd",
    "n_params": "params parameters n_parameters num_parameters size params_m params_b",
    "rho": "density head_density",
    "gain": "gains penultimate_gain last_gain max_gain growth ratio value y",
    "norm": "norms resid_norm hidden_norm l2 l2_norm mean_norm",
}
"""Ours, or what it is of, to names in lower case."""


def names_of(*ours: str) -> list[str]:
    """Names that columns of ours may have, our own first."""
    return [name for each in ours for name in (each, *SYNONYMS.get(each, "").split())]


def fitting(ours: str, there: Sequence[str]) -> str:
    """The likeliest of the columns that are there, whatever its spelling; empty where none fits."""
    spelt = {spelling(name).replace(" ", "_"): name for name in reversed(there)}
    return next((spelt[name] for name in names_of(ours) if name in spelt), "")
