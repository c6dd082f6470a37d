"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Decide, Each, Posterior, Some, V
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.ranking import fit_benchmark
from thermostats.plots.general import drawing, strip_by_group
from thermostats.studies.delia2026 import hierarchy
from thermostats.studies.delia2026.by_prompt import BENCHMARK, TWIN, gain_by_prompt, wide
from thermostats.studies.delia2026.hierarchy import ORDER
from thermostats.words import short_name

SEED, LEAST_BASES = 12, 2
RATIO, BASES = V("ratio"), V("base models of the family with fewest")
RISES, FALLS = Each("steps", RATIO.lower > 1), Some("steps", RATIO.upper < 1)
OF_MODELS = Posterior(" < ".join(map(short_name, ORDER)))
OF_FAMILIES = Posterior("every model above every one of the family before it")
CLAIM = Claim.read(__file__)


def ordered(order: pd.DataFrame) -> dict[str, Any]:
    """The least favourable step, the one of the lowest limit, and the largest p."""
    worst = order.loc[order["ratio_lower"].idxmin()]
    kind = f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f} %"
    ratio, lower, upper = (float(worst[name]) for name in ("ratio", "ratio_lower", "ratio_upper"))
    estimate = Estimate(ratio, lower, upper, kind, float(order["p"].max()), "one-sided p-value")
    return {"quantities": {RATIO.name: estimate}, "rows": {"steps": order}, "table": order}


@CLAIM.shared
def last_gains(evidence: Evidence) -> pd.DataFrame:
    """Last gains by prompt, every run."""
    return hierarchy.last_gains(evidence)


@CLAIM.shared
def fit_members(evidence: Evidence) -> Fitted:
    """Gains of every measured model of the four families by model, prompt and category."""
    return fit_benchmark(hierarchy.members(last_gains(evidence)), "last_gain", order=ORDER, seed=SEED)


def with_order(evidence: Evidence, statement: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The fit, and whether all pairs (lower, higher) of models are in order together."""
    fit = fit_members(evidence)
    place = {name: k for k, name in enumerate(fit.labels["gain"])}
    low, high = (fit.quantities["gain"][..., [place[pair[k]] for pair in pairs]] for k in (0, 1))
    return {"fit": fit, "statements": {statement: (high > low).all(axis=-1)}, "fit_tables": ("ranks", "shares")}


@CLAIM.finding("families", primary=Decide(RISES & (BASES >= LEAST_BASES), FALLS), robustness=OF_FAMILIES)
def families(evidence: Evidence) -> Result:
    """Every measured model of the families, tuned ones too."""
    shown = hierarchy.members(last_gains(evidence))
    pairs = hierarchy.neighbours(shown)
    order = hierarchy.steps(wide(shown), pairs, seed=SEED)
    tuned = evidence.table("models", variant="instruct")["model_id"].tolist()
    bases = min(sum(model not in tuned for model in group) for group in hierarchy.by_family(shown))
    untuned = order[~order["lower"].isin(tuned) & ~order["higher"].isin(tuned)]
    found = ordered(order)
    found["quantities"][BASES.name] = Estimate(bases)
    xlabel = "last gain, one point a prompt; tick: mean"
    return Result(
        **found,
        n_models=shown["model_id"].nunique(),
        n_groups=shown["heritage"].nunique(),
        draw=drawing(strip_by_group, shown, value="value", group="model_id", xlabel=xlabel),
        audit=hierarchy.means_audit(evidence, hierarchy.of_the_four(last_gains(evidence))),
        words={
            "steps": order,
            "against": order[order["ratio_upper"] < 1],
            "untuned": untuned,
            "contradict": int((untuned["ratio_upper"] < 1).sum()),
            "bases": bases,
            "least": LEAST_BASES,
        },
        **with_order(evidence, OF_FAMILIES.statement, pairs),
    )


def four_models(table: pd.DataFrame, name: str, **more: Any) -> Result:
    """Order of the four models under one named gain."""
    order, means = hierarchy.steps(table, list(pairwise(ORDER)), seed=SEED), table.mean().sort_values(kind="stable")
    long = table.melt(var_name="model_id", value_name="gain", ignore_index=False)
    long["heritage"] = long["model_id"].map(hierarchy.LABS)
    xlabel = f"{name}, one point a prompt (log scale); tick: mean"
    draw = drawing(strip_by_group, long, value="gain", group="model_id", xlabel=xlabel, log="x")
    words = {
        "name": name,
        "means": list(means.items()),
        "prompts": len(table),
        "held": int((table[list(ORDER)].diff(axis=1).iloc[:, 1:] > 0).all(axis=1).sum()),
        "worst": order.loc[order["ratio_lower"].idxmin()],
    }
    more["words"] = words | more.get("words", {})
    return Result(**ordered(order), n_models=len(ORDER), n_groups=long["heritage"].nunique(), draw=draw, **more)


@CLAIM.finding("models.last_gain", primary=Decide(RISES, FALLS), robustness=OF_MODELS)
def by_last_gain(evidence: Evidence) -> Result:
    """The four models of the abstract by last gain."""
    rows = last_gains(evidence)
    four = hierarchy.of_the_four(rows)
    again = (wide(rows[rows["source"] == TWIN]).mean() / four.mean() - 1).dropna().abs()
    fitted = with_order(evidence, OF_MODELS.statement, list(pairwise(ORDER)))
    return four_models(four, "last gain", words={"again": again}, **fitted)


@CLAIM.finding("models.total_amplification", primary=Decide(RISES, FALLS))
def by_total_amplification(evidence: Evidence) -> Result:
    """The same four by the norm after the last block over that after the first."""
    rows = gain_by_prompt(evidence, "total_amplification", BENCHMARK)
    return four_models(hierarchy.of_the_four(rows), "total amplification n_L/n_1")


if __name__ == "__main__":
    CLAIM.main()
