"""C07: the trace of the sheaf Laplacian is cheap, and the Laplacian of many heads is block-diagonal.

Claim: Tr(L_F) follows from attention and weights in O(n² + d²) without the operator, and the Laplacian of all heads is
block-diagonal, one block a head, so that traces add.
Estimand: largest relative residual of each identity against the dense operator δᵀδ, built edge by edge, on random
causal attention and random value maps in float64; and, apart, the time of both ways.
Rule: an identity counts as supported where its largest relative residual stays below TOLERANCE on every example, as
not supported where it exceeds it. The order of the cost follows from counting operations and is given in words; the
time it takes needs measurement.
Source: section 5.2, equation 4, proposition 1 and its corollary. No file holds figures on it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.measurement.sheaf import head_measures, printed_factor_trace, value_spectra
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.plots import MUTED
from thermostats.reporting.words import number

TOLERANCE = 1e-10
SEED = 7
SIZES = ((3, 4, 2, 6), (5, 3, 3, 9), (6, 4, 4, 8), (8, 2, 5, 10))
"""(n tokens, H heads, d_h, d) of the examples, small enough for the dense operator of n·d·H rows."""

CLAIM = Claim(
    id="C07",
    title="The trace costs O(n² + d²) and the multi-head Laplacian is block-diagonal",
    said="The trace of the sheaf Laplacian needs neither the operator nor its spectrum, which makes it O(n² + d²), "
    "and the Laplacian of H heads is block-diagonal, so that the heads' traces add.",
    estimand="relative residual of each identity against the dense operator; time of both ways (not in the tables)",
    rule=f"An identity is supported where its largest relative residual over the examples is below {TOLERANCE:g}, "
    "not supported above. The order of the cost follows from counting operations; the time needs measurement.",
    source="Section 5.2, equation 4, proposition 1; no file",
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
                "n": n, "H": H, "d_h": d_h, "d": d, "trace_of_the_dense_operator": total,
                "outside_the_blocks": np.abs(outside).max() / np.abs(dense).max(),
                "trace_by_formula": np.abs(exact / by_head - 1).max(),
                "trace_as_printed": abs(printed_factor_trace(A, spectra) / total - 1),
                "traces_add": abs(exact.sum() / total - 1),
            }
        )  # fmt: skip
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


def analyse(tables: Tables) -> list[Finding]:
    """Cost (needs measurement), then the identities, then the formula as printed."""
    del tables
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
    return [
        Finding(
            claim="C07", estimand="cost of the trace against that of the operator", verdict="needs measurement",
            plain=f"Equation 4 {'gives' if printed_holds else 'as printed gives zero and not'} the trace, and how long "
            "either way takes is not in the published files and has to be measured. With the diagonal of A in place of "
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
            claim="C07", estimand="block structure and trace identity", verdict="supported" if holds else "not "
            "supported",
            estimate=structure,
            plain=f"The Laplacian of several heads {'is' if holds else 'is not'} block-diagonal and the traces of "
            f"the heads {'add' if holds else 'do not add'}: over {where} nothing exceeds a relative residual of "
            f"{number(structure)}. This is built into the definition, where every head has a copy of the stalk of "
            "its own; it says nothing about what a trained model does.",
        ),
        Finding(
            claim="C07", estimand="trace with the factor as printed, sum of A less n",
            verdict="supported" if printed_holds else "not supported", estimate=printed,
            plain=f"The formula printed as equation 4 {'gives' if printed_holds else 'does not give'} the trace. "
            "Rows of attention sum to 1, so its factor is zero whatever the model, and it misses the trace by "
            f"{printed:.0%}; with the diagonal of A in place of n the formula {said}.",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    run(CLAIM, analyse)
