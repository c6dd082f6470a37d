"""C07: the trace of the sheaf Laplacian is cheap, and the Laplacian of many heads is block-diagonal.

Claim: Tr(L_F) follows from attention and weights in O(n² + d²) without the operator, and the Laplacian of all heads is
block-diagonal, one block a head, so that traces add.
Estimand: largest relative residual of each identity against the dense operator δᵀδ, built edge by edge, on random
causal attention and random value maps in float64; and, apart, the time of both ways.
Rule: an identity counts as supported where its largest relative residual stays below TOLERANCE on every example, as
not supported where it exceeds it. The order of the cost follows from counting operations and is given in words. The
time: supported where the formula is faster than building the operator at every size that the benchmark timed, not
supported where it is slower at every size, else inconclusive; without the benchmark's results it needs measurement.
That part of the rule was written with the benchmark's figures known; the exponents of the times are shown and judge
nothing, since they are of one machine and its caches.
Measured models, those trained here and others apart: per head and prompt the measured trace against
(n − tr A)·‖W_V^h‖_F², with n, tr A and ‖W_V^h‖_F from tables that were measured without one another; residual relative
to n‖W_V^h‖_F², the scale at which rounding enters. Supported where no residual exceeds SINGLE, the rounding of a
softmax in single precision over some hundred tokens, not supported where one does, needs measurement without rows.
Source: section 5.2, equation 4, proposition 1 and its corollary. No file holds figures on it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, UNMEASURED
from thermostats.measurement.sheaf import head_measures, printed_factor_trace, value_spectra
from thermostats.plots.general import MUTED
from thermostats.plots.scales import log_axis
from thermostats.studies.nursery.norms import at_the_end
from thermostats.words import number, range_text

TOLERANCE, SINGLE = 1e-10, 1e-5
SEED = 7
SIZES = ((3, 4, 2, 6), (5, 3, 3, 9), (6, 4, 4, 8), (8, 2, 5, 10))
"""(n tokens, H heads, d_h, d) of the examples, small enough for the dense operator of n·d·H rows."""

CLAIM = Claim(
    id="C07",
    title="The trace costs O(n² + d²) and the multi-head Laplacian is block-diagonal",
    said="The trace of the sheaf Laplacian needs neither the operator nor its spectrum, which makes it O(n² + d²), "
    "and the Laplacian of H heads is block-diagonal, so that the heads' traces add.",
    estimand="relative residual of each identity against the dense operator; time of both ways",
    rule=f"An identity is supported where its largest relative residual over the examples is below {TOLERANCE:g}, "
    "not supported above. The order of the cost follows from counting operations; its time is supported where the "
    "formula is faster than building the operator at every size timed. On measured models the identity is supported "
    f"where no head's residual exceeds {SINGLE:g}, rounding in single precision.",
    source="Section 5.2, equation 4, proposition 1; no file",
    rows="study and measured",
)


def examples() -> pd.DataFrame:
    """One row an example: residuals of the block structure, of the exact trace and of the trace as printed."""
    rng, rows = np.random.default_rng(SEED), []
    for n, H, d_h, d in SIZES:
        A = np.tril(rng.exponential(size=(H, n, n)))
        A /= A.sum(axis=2, keepdims=True)
        W = rng.normal(size=(H, d_h, d))
        dense = dense_operator(A, W)
        total, spectra = np.trace(dense), value_spectra(W)
        blocks = [slice(h * n * d, (h + 1) * n * d) for h in range(H)]
        outside = dense.copy()
        for block in blocks:
            outside[block, block] = 0.0
        by_head = np.array([np.trace(dense[block, block]) for block in blocks])
        exact = head_measures(A, spectra)["trace"]
        rows.append(
            {
                "n": n,
                "H": H,
                "d_h": d_h,
                "d": d,
                "trace_of_the_dense_operator": total,
                "outside_the_blocks": np.abs(outside).max() / np.abs(dense).max(),
                "trace_by_formula": np.abs(exact / by_head - 1).max(),
                "trace_as_printed": abs(printed_factor_trace(A, spectra) / total - 1),
                "traces_add": abs(exact.sum() / total - 1),
            }
        )
    return pd.DataFrame(rows)


def dense_operator(A: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """δᵀδ on the stalks of all heads: δ maps a token's stalk of head h to √w_ij (W^h x_i − W^h x_j) on edge {i, j}."""
    H, n, _ = A.shape
    d_h, d = W.shape[1:]
    rows = []
    for h in range(H):
        for i in range(n):
            for j in range(i):
                delta = np.zeros((d_h, H, n, d))
                weight = np.sqrt((A[h, i, j] + A[h, j, i]) / 2)
                delta[:, h, i], delta[:, h, j] = weight * W[h], -weight * W[h]
                rows.append(delta.reshape(d_h, -1))
    coboundary = np.vstack(rows)
    return coboundary.T @ coboundary


def measured_heads(attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """One row a model, layer, head and prompt: the measured trace, (n − tr A)·‖W_V^h‖_F², and n‖W_V^h‖_F²."""
    key = ["model_id", "revision"]
    heads = attention[(attention["variant"] == "exact") & (attention["head"] != "")].dropna(subset="trace")
    norms = weights[(weights["matrix"] == "W_V") & (weights["head"] != "")]
    norms = norms[[*key, "layer", "head", "frobenius_norm"]].drop_duplicates([*key, "layer", "head"])
    lengths = layers.dropna(subset="n_tokens").drop_duplicates([*key, "prompt_set", "prompt_id"])
    lengths = lengths[[*key, "prompt_set", "prompt_id", "n_tokens"]]
    rows = heads.merge(norms, on=[*key, "layer", "head"]).merge(lengths, on=[*key, "prompt_set", "prompt_id"])
    n, squared = rows["n_tokens"].astype(float), rows["frobenius_norm"].astype(float) ** 2
    diagonal = n * rows["self_attention"].astype(float)
    return rows[["model_id", "heritage", "layer", "head", "prompt_id"]].assign(
        trace=rows["trace"].astype(float), by_formula=(n - diagonal) * squared, scale=n * squared
    )


def as_published(attention: pd.DataFrame) -> pd.DataFrame:
    """One row a model: each trace of the study over the exact one, layer by layer and prompt by prompt, median."""
    whole = attention[(attention["head"] == "") & attention["trace"].notna()]
    wide = whole.pivot_table(index=["model_id", "layer", "prompt_id"], columns="variant", values="trace", dropna=False)
    wide = wide.reindex(columns=["exact", "first_head", "multi_head", "printed_factor"]).astype(float).dropna()
    return wide.drop(columns="exact").div(wide["exact"], axis=0).groupby("model_id").median().reset_index()


def of_models(
    attention: pd.DataFrame, weights: pd.DataFrame, layers: pd.DataFrame, *, whose: str, group: str, limits: str = ""
) -> Finding:
    """The identity on measured models, and what the study's traces are of the exact one."""
    rows = measured_heads(attention, weights, layers)
    estimand = f"trace identity on {whose}"
    if rows.empty:
        return Finding(
            claim="C07",
            estimand=estimand,
            verdict=UNMEASURED,
            plain=f"{SENTENCES[UNMEASURED]}: the tables hold no attention by head of {whose}.",
        )
    rows["residual"] = (rows["trace"] - rows["by_formula"]).abs() / rows["scale"]
    worst, models = float(rows["residual"].max()), rows["model_id"].nunique()
    verdict = SUPPORTED if worst <= SINGLE else AGAINST
    table = rows.groupby(["model_id", "heritage"], as_index=False)["residual"].max()
    table = table.merge(as_published(attention), on="model_id", how="left")
    first, cut, printed = (table[name].dropna() for name in ("first_head", "multi_head", "printed_factor"))

    def draw(axes: Axes) -> None:
        for place, values in enumerate((first, cut)):
            axes.scatter(values, np.full(len(values), place) + np.linspace(-0.2, 0.2, len(values)), s=22, alpha=0.8)
        axes.axvline(1.0, color=MUTED, linestyle="--", linewidth=1)
        axes.set(xlabel="trace of the study over the exact trace, median of a model", ylim=(1.6, -0.6))
        log_axis(axes, "x")
        axes.set_yticks((0, 1), ["mean attention, first head", "all heads, as cut"])

    return Finding(
        claim="C07",
        estimand=estimand,
        verdict=verdict,
        estimate=worst,
        n_models=models,
        n_heritages=rows["heritage"].nunique(),
        group=group,
        plain=f"{SENTENCES[verdict]}: over {len(rows)} heads, layers and prompts of {models} "
        f"{'model' if models == 1 else 'models'} ({whose}) the trace measured from attention differs from "
        "(n − tr A)·‖W_V‖_F², put together from tables that do not know of one another, by at most "
        f"{number(worst)} of n‖W_V‖_F². The study's own ways give another number: from the mean attention and the "
        f"first head {number(first.median())} of the exact trace {range_text(first.min(), first.max())}, from all "
        f"heads as the study cut them {number(cut.median())} {range_text(cut.min(), cut.max())} (median and range over "
        "models).",
        table=table,
        draw=draw,
        caption=f"The study's two traces over the exact one, one point a model, {whose}; dashed: equal.",
        notes=(
            "The factor as printed, Σ A − n, gives at most "
            f"{number(float(printed.abs().max()) if len(printed) else 0.0)} of the exact trace in these models.",
            "That the heads' traces add is how the total was measured and is no finding here.",
            *((limits,) if limits else ()),
        ),
    )


def analyse(tables: Evidence) -> list[Finding]:
    """Cost, then the identities, then the formula as printed; then models trained here, and others measured here."""
    names = ("attention", "weights", "layers")
    own = [at_the_end(tables, name) for name in names]
    others = [
        tables.table("attention", variant=["exact", "first_head", "multi_head", "printed_factor"]),
        tables.table("weights", matrix="W_V"),
        tables.table("layers", position="last"),
    ]
    known = others[1][others[1]["head"] != ""]["model_id"]
    others[0] = others[0][others[0]["model_id"].isin(known)]
    small = "Small models, trained for a short time on two corpora."
    return [
        *identities(tables.table("sheaf-dense"), tables.table("sheaf-exponents")),
        of_models(*own, whose="models trained here", group="recipe", limits=small),
        of_models(*others, whose="models measured here that others trained", group="lab"),
    ]


def cost(dense: pd.DataFrame, exponents: pd.DataFrame) -> tuple[str, str]:
    """Verdict on the time, and the sentences that give it."""
    if dense.empty or exponents.empty:
        return UNMEASURED, "How long either way takes is not in the tables and has to be measured."
    factor = dense["times_slower_when_built"]
    verdict = SUPPORTED if (factor > 1).all() else AGAINST if (factor < 1).all() else OPEN
    largest = dense.loc[(dense["n"] * dense["d"]).idxmax()]
    rates = " and ".join(
        f"{row.exponent.removesuffix(')').split('(')[1]} to the power {number(row.estimate)} "
        f"{range_text(row.lower, row.upper)}"
        for row in exponents.itertuples()
    )
    return verdict, (
        f"{SENTENCES[verdict]} for time: building the operator took {number(factor.min())} to {number(factor.max())} "
        f"times as long at the {len(dense)} sizes timed, {number(largest['times_slower_when_built'])} times at "
        f"n = {int(largest['n'])}, d = {int(largest['d'])}. Times of the formula grow with {rates} (95 % intervals; "
        "one machine, caches included)."
    )


def identities(dense: pd.DataFrame, exponents: pd.DataFrame) -> list[Finding]:
    """Cost, block structure and trace, and the formula as printed, on random examples."""
    table = examples()
    structure = float(table[["outside_the_blocks", "trace_by_formula", "traces_add"]].max(axis=None))
    printed = float(table["trace_as_printed"].max())
    holds, printed_holds = structure < TOLERANCE, printed < TOLERANCE
    where = f"{len(table)} random examples of up to {table['n'].max()} tokens and {table['H'].max()} heads"

    def draw(axes: Axes) -> None:
        names = ["outside_the_blocks", "traces_add", "trace_by_formula", "trace_as_printed"]
        worst = table[names].max().clip(lower=np.finfo(float).eps / 100)
        axes.scatter(worst, range(len(names)), s=48, zorder=3)
        axes.axvline(TOLERANCE, color=MUTED, linestyle="--", linewidth=1)
        axes.annotate(
            "tolerance", (TOLERANCE, len(names) - 0.6), xytext=(4, 0), textcoords="offset points", color=MUTED
        )
        axes.set(
            xscale="log", xlabel="largest relative residual against the dense operator", ylim=(len(names) - 0.4, -0.6)
        )
        axes.set_yticks(
            range(len(names)),
            ["entries outside the blocks", "traces of heads add", "trace, Σ A − tr A", "trace as printed, Σ A − n"],
        )

    said = "holds" if holds else "fails"
    timed, seconds = cost(dense, exponents)
    return [
        Finding(
            claim="C07",
            estimand="cost of the trace against that of the operator",
            verdict=timed,
            plain=f"Equation 4 {'gives' if printed_holds else 'as printed gives zero and not'} the trace. {seconds} "
            "With the diagonal of A in place of "
            f"n the formula {said}: on {where} it and the full operator differ by at most {number(structure)} of the "
            "value. The order O(n² + d²) of a head follows from counting its additions and multiplications.",
            table=table,
            draw=draw,
            caption=f"Largest relative residual of four identities against the dense operator over {where}. "
            f"Structure and trace stay at rounding error ({number(structure)}); the trace with the factor as printed "
            f"is off by {printed:.0%} of the value.",
            notes=(
                "Given the attention matrix of one head, the trace needs its diagonal and its sum (at most n² "
                "additions) "
                "and the squares of W_V's entries; the order n² + d² counts this, and not the making of the attention.",
                "No model is fitted: an identity holds or does not, and there is nothing to be uncertain about but "
                "rounding.",
            ),
        ),
        Finding(
            claim="C07",
            estimand="block structure and trace identity",
            verdict="supported" if holds else "not supported",
            estimate=structure,
            plain=f"The Laplacian of several heads {'is' if holds else 'is not'} block-diagonal and the traces of "
            f"the heads {'add' if holds else 'do not add'}: over {where} nothing exceeds a relative residual of "
            f"{number(structure)}. This is built into the definition, where every head has a copy of the stalk of "
            "its own; it says nothing about what a trained model does.",
        ),
        Finding(
            claim="C07",
            estimand="trace with the factor as printed, sum of A less n",
            verdict="supported" if printed_holds else "not supported",
            estimate=printed,
            plain=f"The formula printed as equation 4 {'gives' if printed_holds else 'does not give'} the trace. "
            "Rows of attention sum to 1, so its factor is zero whatever the model, and it misses the trace by "
            f"{printed:.0%}; with the diagonal of A in place of n the formula {said}.",
        ),
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
