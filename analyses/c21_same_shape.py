"""C21: of models of equal shape, EleutherAI's have the smaller gain."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import (
    EXTERNAL,
    MEASURED,
    POOLED,
    PUBLISHED,
    Case,
    Claim,
    Evidence,
    Inference,
    Result,
    Test,
    Trial,
    Views,
)
from thermostats.claims.rule import Decide, Posterior, V
from thermostats.claims.worlds import build_shift_worlds, name_size
from thermostats.modelling.classical.many import Many
from thermostats.modelling.matched import (
    BELOW,
    CELL,
    SHAPE,
    Cells,
    estimate_random_ratios,
    estimate_ratio,
    fit_matched,
    simulate_false_rate,
)
from thermostats.studies.delia2026.published_gains import HUNT, PYTHIA, load_gains
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.tables.labels import drop_unlabelled

ALPHA = 0.05
SEED = 21
STATED = 0.92
"""EleutherAI's mean gain over that of the other labs' means, 0.99 against 1.08, as the study's
figure 2 has them."""
SPREAD = 0.08
"""SD of log gains of models of equal shape, half of its square between families: 0.056 between them
and as much within."""
RATIO = V("ratio")
LOWER = Decide((RATIO < 1) & (RATIO.p <= ALPHA), (RATIO > 1) & (RATIO.p <= ALPHA))
INTERVAL = "95% t interval, families random"
GAINS = (
    Case("penultimate_gain", "penultimate gain", "penultimate_gain"),
    Case(
        "geometric_gain",
        "mean gain per block of blocks 2 to L − 1",
        "geometric_gain_to_penultimate",
    ),
)
CLAIM = Claim.read(__file__)

models = CLAIM.shared(load_gains)


def match_shapes(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Comparable models of shapes that EleutherAI and others built, with the log of a gain."""
    every = models(evidence).dropna(subset=[gain.column, *SHAPE])
    rows = drop_unlabelled(every[every["comparable"]].reset_index(drop=True), "heritage", "family")
    first, *others = SHAPE
    numbers = rows[list(SHAPE)].astype(int).astype(str)
    cell = numbers[first].str.cat(numbers[others], sep=" × ")
    logs = np.log(rows[gain.column].astype(float))
    rows = rows.assign(**{CELL: cell}, focal=rows["heritage"] == FOCAL, log_outcome=logs)
    both = rows.groupby(CELL)["focal"].transform("nunique") == 2
    return rows[both].sort_values([*SHAPE, "focal"], kind="stable", ignore_index=True)


def build_cells(rows: pd.DataFrame) -> Cells:
    """Shapes, sides and families of the rows."""
    cell, family = (pd.factorize(rows[name], sort=True)[0] for name in (CELL, "family"))
    return Cells(cell=cell, side=rows["focal"].to_numpy(bool), group=family)


def compare_shapes(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Many]:
    """Ratio of EleutherAI's gains to others' given levels of shapes, families random; p to its
    side."""
    return {RATIO.name: estimate_random_ratios(outcomes["log_outcome"], build_cells(rows))}


def describe_shapes(rows: pd.DataFrame, result: Result) -> Result:
    """With families moved whole and models moved within their shapes, too."""
    y = rows["log_outcome"].to_numpy(np.float64)
    return result.adding(words={"test": estimate_ratio(y, build_cells(rows), seed=SEED)})


SHAPES = Test(compare_shapes, ("log_outcome",), INTERVAL, "one-sided p-value", describe_shapes)


def name_ratio(shift: float) -> Result:
    """The ratio in an endless sample of a world."""
    return name_size(RATIO.name, float(np.exp(shift)))


def build_trial(gain: Case) -> Trial:
    """The test of a gain in worlds whose errors go as far as that gain's residuals allow."""
    worlds = build_shift_worlds(
        "log_outcome",
        float(np.log(STATED)),
        SPREAD,
        by="focal",
        families=True,
        large=name_ratio,
        group="family",
        measured=gain.column,
    )
    return Trial(match_shapes, SHAPES, CELL, worlds, version=2, within=CELL)


VIEWS = partial(Views, models=6, groups=2, including=(FOCAL,))


def count_sides(rows: pd.DataFrame) -> dict[str, Any]:
    """Shapes, pairs of EleutherAI's and another's model, and how many lie on opposite sides of
    1."""
    cells = [(part[part["focal"]], part[~part["focal"]]) for _, part in rows.groupby(CELL)]
    pairs = [
        (a, b) for own, others in cells for a in own["log_outcome"] for b in others["log_outcome"]
    ]
    lowest = sum(own["log_outcome"].max() < others["log_outcome"].min() for own, others in cells)
    return {
        "shapes": len(cells),
        "lowest": int(lowest),
        "pairs": len(pairs),
        "opposite": sum((a < 0) != (b < 0) for a, b in pairs),
        "families": rows["family"].nunique(),
        "norms": {side: sorted(set(part["norm_kind"])) for side, part in rows.groupby("focal")},
    }


def simulate_false_alarms(rows: pd.DataFrame, *, families: float, residual: float) -> float:
    """How often models moved within their shapes would say at 5% that labs differ, were only
    families unlike."""
    cells = build_cells(rows)
    return simulate_false_rate(
        cells, cells.permute_units(SEED), group_sd=families, unit_sd=residual
    )


@CLAIM.finding(
    "shape",
    primary=LOWER,
    robustness=Posterior(BELOW),
    over=GAINS[:1],
    trial=build_trial,
    views=VIEWS(sets=(POOLED, EXTERNAL, MEASURED)),
)
def judge_penultimate(evidence: Evidence, gain: Case) -> Result:
    """The study's gain: the fit with random families decides; families and models that are moved,
    and the fit that was declared with priors, are shown."""
    rows = match_shapes(evidence, gain)
    fit = fit_matched(rows, gain.column, focal=FOCAL, sources=[PYTHIA, HUNT], seed=SEED)
    spread = {
        name: float(np.median(fit.quantities[f"{name}_sd"])) for name in ("family", "residual")
    }
    columns = ["model_id", "heritage", "family", CELL, "gain", "lower", "upper"]
    return SHAPES(rows).adding(
        table=rows[columns],
        draw=lambda axes: fit.plot("cells", axes),
        inference=Inference(fit, tables=("cells", "permutation")),
        words={
            **count_sides(rows),
            "spread": spread,
            "errs": simulate_false_alarms(
                rows, families=spread["family"], residual=spread["residual"]
            ),
        },
    )


@CLAIM.finding(
    "shape",
    primary=LOWER,
    over=GAINS[1:],
    trial=build_trial,
    evidence=POOLED,
    views=VIEWS(sets=(PUBLISHED, EXTERNAL, MEASURED)),
)
def judge_all_blocks(evidence: Evidence, gain: Case) -> Result:
    """The mean gain per block, of all evidence first."""
    rows = match_shapes(evidence, gain)
    return SHAPES(rows).adding(words=count_sides(rows))


if __name__ == "__main__":
    CLAIM.main()
