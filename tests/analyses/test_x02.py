"""X02: few models decide nothing, two that lose are enough against it, enough families support
it."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, ROOT, YES, altered, analysis, judged, scaled, untried


@pytest.mark.parametrize(
    ("models", "verdict"),
    [("all-MiniLM-L6-v2", OPEN), (("all-MiniLM-L6-v2", "bert_pretrained"), NO)],
)
def test_two_encoders_that_write_against_their_streams_are_enough_against_it(
    models: str, verdict: str
) -> None:
    losing = altered(
        layers=scaled(lambda f: f["model_id"].str.endswith(models), 0.4, "gain_sum_mlp")
    )
    assert judged(untried(analysis("x02")), losing, "post_norm")["post_norm"].verdict == verdict


@pytest.mark.parametrize(("models", "verdict"), [(8, YES), (4, OPEN)])
def test_enough_families_support_it(models: int, verdict: str) -> None:
    x02 = analysis("x02")
    named = [f"m{i}" for i in range(models)]
    rows = pd.DataFrame(
        {"model_id": named, "heritage": named, "family": named, "log": 0.4, "half": 0.1}
    )
    assert x02.AMPLIFY.verdict(x02.SHARE(rows)) == verdict
    for losing, said in ((1, OPEN), (2, NO)):
        assert (
            x02.AMPLIFY.verdict(
                x02.SHARE(rows.assign(log=np.where(rows.index < losing, -0.4, 0.4)))
            )
            == said
        )


def test_sums_before_the_norm_are_read_by_the_claims_that_may() -> None:
    reading = {
        path.stem.partition("_")[0]
        for path in (ROOT / "analyses").glob("*.py")
        if "gain_sum" in path.read_text()
    }
    assert reading == {"x01", "x02"}
