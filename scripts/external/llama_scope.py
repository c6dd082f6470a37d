"""Mean norms after every block, and of both writes, of Llama-3.1-8B and a model distilled into
it."""

from pathlib import Path

import pandas as pd
from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="saelens-llama-scope",
    title="Mean activation norms of Llama Scope, from the registry of SAELens",
    address="github.com/jbloomAus/SAELens",
    commit="91ca16ccd0684e4dd6323cd4f23ded734339ec54",
    licence="MIT",
)
INSTRUMENT = "mean norms over tokens that sparse autoencoders are scaled by; ratios of means"
POSITION = "mean_norm"
BASE = "meta-llama/Llama-3.1-8B"
SLIMPAJAMA = "llama_scope_slimpajama"
CORPORA = {
    "800m_slimpajama": SLIMPAJAMA,
    "800m_openr1_math": "llama_scope_openr1_math",
    "400m_slimpajama_400m_openr1_math": "llama_scope_slimpajama_openr1_math",
}
"""Prompt set of each sample of the distilled model."""
SAMPLES = ("8x", "32x")
"""Two samples of one corpus that the base model's norms were averaged over."""


def tables(folder: Path) -> Tables:
    """Gains of blocks 2 to L on each corpus; of the base model what both sub-blocks write, over
    n_(l-1), too."""
    made = Tables(SOURCE)
    every = pd.read_csv(folder / "norm_scaling_factors.csv")
    for name in CORPORA.values():
        made.prompts(name, SAMPLES if name == SLIMPAJAMA else ("all",), "Corpus")
    base = every[every["model"] == BASE]
    run = made.run(BASE, SLIMPAJAMA, INSTRUMENT, "bfloat16")
    for sample in SAMPLES:
        wide = (
            base[base["variant"] == sample]
            .pivot(index="layer", columns="site", values="mean_norm")
            .sort_index()
        )
        of_sample = Tables(SOURCE)
        of_sample.norms(run, wide["resid_post"].tolist(), POSITION, first=1, prompt=sample)
        for row in of_sample.rows["layers"]:
            norms = wide.loc[row["layer"] - 1]
            row["write_attention"] = norms["attn_out"] / row["norm_in"]
            row["write_mlp"] = norms["mlp_out"] / row["norm_in"]
        made.add("layers", of_sample.rows["layers"])
    for (model, sample), rows in every[every["model"] != BASE].groupby(["model", "variant"]):
        run = made.run(str(model), CORPORA[str(sample)], INSTRUMENT, "bfloat16")
        made.norms(run, rows.sort_values("layer")["mean_norm"].tolist(), POSITION, first=1)
    return made
