"""C07: the trace of the sheaf Laplacian is cheap, and the Laplacian of many heads is
block-diagonal."""

from functools import partial

import pandas as pd

from thermostats.claims.claim import MEASURED, Claim, Estimate, Evidence, Result
from thermostats.claims.rule import AtLeast, Decide, Each, V
from thermostats.measurement.sheaf import measure_identity_residuals
from thermostats.studies.delia2026.curves import (
    draw_exact_ratios,
    draw_times_slower,
    draw_worst_residuals,
)
from thermostats.studies.delia2026.layer_traces import compare_exact, compare_formula
from thermostats.studies.nursery.study_rows import select_end_rows
from thermostats.tables.schemas import NURSERY

TOLERANCE, SINGLE = 1e-10, 1e-5
"""Rounding of sums in double precision, and of a softmax over some hundred tokens in single
precision."""
SEED = 7
SIZES = ((3, 4, 2, 6), (5, 3, 3, 9), (6, 4, 4, 8), (8, 2, 5, 10))
"""(n tokens, H heads, d_h, d) of the examples, small enough for the dense operator of n·d·H
rows."""
IDENTITIES = {
    "outside_the_blocks": "entries outside the blocks",
    "traces_add": "traces of heads add",
    "trace_by_formula": "trace, Σ A − tr A",
    "trace_as_printed": "trace as printed, Σ A − n",
}
STRUCTURE = list(IDENTITIES)[:3]

CLAIM = Claim.read(__file__)


def build_identity_rule(name: str, tolerance: float) -> Decide:
    """An identity holds where its largest residual stays below the tolerance, and fails where it
    does not."""
    return Decide(V(name) < tolerance, V(name) >= tolerance)


@CLAIM.shared
def load_examples(evidence: Evidence) -> pd.DataFrame:
    """Residuals of the identities on random examples."""
    return measure_identity_residuals(SIZES, seed=SEED)


def judge_identity(evidence: Evidence, name: str, columns: list[str]) -> Result:
    """The largest residual of some identities over the examples."""
    table = load_examples(evidence)
    words = {"examples": table, "structure": table[STRUCTURE].max(axis=None)}
    return Result(quantities={name: Estimate(float(table[columns].max(axis=None)))}, words=words)


FASTER = V("times as long when built")


@CLAIM.finding(
    "cost",
    primary=Decide(Each("sizes", FASTER > 1), Each("sizes", FASTER < 1)),
    evidence=None,
    needs=AtLeast(models=0, rows={"sizes": 1}),
)
def judge_cost(evidence: Evidence) -> Result:
    """The time of the formula against that of building the operator, as measured on one machine."""
    dense = evidence.table("sheaf-dense")
    rates = evidence.table("sheaf-exponents").to_dict("records")
    exact = load_examples(evidence)
    words = {"sizes": dense, "rates": rates, "printed": exact["trace_as_printed"].max()}
    words["structure"] = exact[STRUCTURE].max(axis=None)
    rows = {"sizes": dense.rename(columns={"times_slower_when_built": FASTER.name})}
    return Result(rows=rows, table=dense, draw=partial(draw_times_slower, sizes=dense), words=words)


@CLAIM.finding("blocks", primary=build_identity_rule("largest residual", TOLERANCE), evidence=None)
def judge_blocks(evidence: Evidence) -> Result:
    """Block structure, the trace by the formula, and the sum of the heads' traces."""
    draw = partial(
        draw_worst_residuals, table=load_examples(evidence), names=IDENTITIES, tolerance=TOLERANCE
    )
    return judge_identity(evidence, "largest residual", STRUCTURE).adding(
        table=load_examples(evidence), draw=draw
    )


@CLAIM.finding(
    "printed",
    primary=build_identity_rule("residual of the printed formula", TOLERANCE),
    evidence=None,
)
def judge_printed(evidence: Evidence) -> Result:
    """The trace with the factor as printed."""
    return judge_identity(evidence, "residual of the printed formula", ["trace_as_printed"])


def compare_traces(
    whose: str, attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame
) -> Result:
    """The identity on measured models, and what the study's traces are of the exact one."""
    rows = compare_formula(attention, weights, layers)
    table = rows.groupby(["model_id", "heritage"], as_index=False)["residual"].max()
    table = table.merge(compare_exact(attention), on="model_id", how="left")
    ways = {name: table[name].dropna() for name in ("first_head", "multi_head", "printed_factor")}

    return Result(
        quantities={"residual": Estimate(float(rows["residual"].max()))},
        n_models=rows["model_id"].nunique(),
        n_groups=rows["heritage"].nunique(),
        table=table,
        draw=partial(draw_exact_ratios, ways=[ways["first_head"], ways["multi_head"]]),
        words={"whose": whose, "rows": len(rows), **ways},
    )


EXACT = Decide(V("residual") <= SINGLE, V("residual") > SINGLE)


@CLAIM.finding("trace.trained", primary=EXACT, evidence=NURSERY, needs=AtLeast(models=1))
def judge_trained(evidence: Evidence) -> Result:
    """The identity on models trained here."""
    return compare_traces(
        "models trained here",
        *(select_end_rows(evidence, name) for name in ("attention", "weights", "layers")),
    )


@CLAIM.finding("trace.measured", primary=EXACT, evidence=MEASURED, needs=AtLeast(models=1))
def judge_measured(evidence: Evidence) -> Result:
    """The identity on other models that were measured."""
    weights = evidence.table("weights", matrix="W_V")
    layers = evidence.table("layers", position="last")
    attention = evidence.table(
        "attention", variant=["exact", "first_head", "multi_head", "printed_factor"]
    )
    known = weights.loc[weights["head"] != "", "model_id"]
    return compare_traces(
        "models measured here that others trained",
        attention[attention["model_id"].isin(known)],
        weights,
        layers,
    )


if __name__ == "__main__":
    CLAIM.main()
