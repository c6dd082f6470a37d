"""C18: the correlation follows the slope that is put in; measured models have a finding of their own."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, altered, by_rules_alone, judged, shipped

FILES = ("thermodynamic_benchmark", "twin_test", "gpt2_layernorm", "gptj_parallel")


def quick() -> object:
    c18 = by_rules_alone("c18")
    c18.RESAMPLES = c18.RESAMPLES_PEARSON = 199
    return c18


@pytest.mark.parametrize(("slope", "verdict"), [(0.3, OPEN), (-0.3, NO)])
def test_the_slope_of_gain_on_entropy_decides(slope: float, verdict: str) -> None:
    level = {"Cliche": 1.0, "Factual": 2.0, "Syntactic": 3.0, "Novel": 4.0, "Nonsense": 5.0}
    prompts = shipped().table("prompts", prompt_set="study_25").set_index("prompt_id")["category"].map(level)
    noise = dict(zip(prompts.index, np.random.default_rng(2).normal(0, 0.2, len(prompts)), strict=True))

    def entropies(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(entropy=frame["prompt_id"].map(lambda p: prompts.get(p, 1.0) + noise.get(p, 0.0)))

    def follow(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["source"].str.startswith(FILES)
        x = frame.loc[rows, "prompt_id"].map(lambda p: prompts[p] + noise[p])
        frame.loc[rows, "gain_block"] = np.exp(slope * x + 0.01 * np.random.default_rng(3).normal(size=len(x)))
        return frame

    found = judged(quick(), altered(layers=follow, outputs=entropies))
    assert found["whole"].verdict == found["entropy.base"].verdict == verdict
    supported = [found[name].criterion.settles for name in ("cliches", *["entropy.base"] * (verdict == OPEN))]
    assert all("says “supported” falsely" in text for text in supported)  # so these are open, whatever the slope
