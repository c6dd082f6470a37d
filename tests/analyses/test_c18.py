"""C18: the correlation follows the slope that is put in; measured models have a finding of their
own."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, YES, altered, by_rules_alone, judged, measured_again, shipped, untried

FILES = ("thermodynamic_benchmark", "twin_test", "gpt2_layernorm", "gptj_parallel")


def quick() -> object:
    c18 = by_rules_alone("c18")
    c18.RESAMPLES = c18.RESAMPLES_PEARSON = 199
    return c18


@pytest.mark.parametrize(("slope", "by_rule"), [(0.3, YES), (-0.3, NO)])
def test_the_slope_of_gain_on_entropy_decides(slope: float, by_rule: str) -> None:
    """Clichés have the lowest entropy."""
    level = {"Cliche": 1.0, "Factual": 2.0, "Syntactic": 3.0, "Novel": 4.0, "Nonsense": 5.0}
    prompts = (
        shipped()
        .table("prompts", prompt_set="study_25")
        .set_index("prompt_id")["category"]
        .map(level)
    )
    noise = dict(
        zip(prompts.index, np.random.default_rng(2).normal(0, 0.2, len(prompts)), strict=True)
    )

    def entropies(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(
            entropy=frame["prompt_id"].map(lambda p: prompts.get(p, 1.0) + noise.get(p, 0.0))
        )

    def follow(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["source"].str.startswith(FILES)
        x = frame.loc[rows, "prompt_id"].map(lambda p: prompts[p] + noise[p])
        frame.loc[rows, "gain_block"] = np.exp(
            slope * x + 0.01 * np.random.default_rng(3).normal(size=len(x))
        )
        return frame

    tables, parts = altered(layers=follow, outputs=entropies), ("whole", "entropy.base", "cliches")
    alone = judged(untried(quick()), tables)
    assert [alone[name].verdict for name in parts] == [by_rule, by_rule, YES]


def test_models_measured_here_have_a_finding_of_their_own() -> None:
    """Of the benchmark's models a second time, as measured here, it is the benchmark's."""
    tables = altered(**dict.fromkeys(("runs", "layers", "outputs", "summaries"), measured_again))
    here, benchmark = judged(quick(), tables, "entropy.measured", "entropy.benchmark").values()
    assert here.sample.n_models == benchmark.sample.n_models == 4
    assert here.headline == benchmark.headline
