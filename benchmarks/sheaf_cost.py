"""The cost of the sheaf Laplacian's trace, O(n² + d²): measured on a grid of prompt lengths n and
widths d.

    python benchmarks/sheaf_cost.py [--repeats 15]

tr L_F = (Σ A − tr A)·‖W_V‖_F² takes one pass over A (n × n) and one over W_V (d × d). Fits t(n, d)
= c + a n^α + b d^β to the medians on the logarithmic scale. Writes
benchmarks/results/sheaf-cost.csv (times) and sheaf-cost.md, and what C07 shows to data/timings:
sheaf-exponents.csv, and sheaf-dense.csv (next to building the operator).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from peers import ONE_THREAD

os.environ.update(ONE_THREAD)

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from results import RESULTS, markdown
from scipy.optimize import curve_fit
from scipy.stats import t as student

from thermostats.measurement.sheaf import ValueSpectra, measure_multi_head_trace

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)
DENSE = ((8, 16), (8, 32), (16, 32), (16, 64), (32, 64))
"""Sizes at which the operator is also built, n·d × n·d, and its trace taken."""


def trace(A: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """The package's trace of one head; ‖W_V‖_F² needs the squared entries of W_V and no
    spectrum."""
    return measure_multi_head_trace(A[None], ValueSpectra(np.einsum("ij,ij->i", W, W)[None]))


def dense_trace(A: NDArray[np.float64], W: NDArray[np.float64]) -> float:
    """The trace of L_G ⊗ W_Vᵀ W_V, built."""
    w = (A + A.T) / 2
    np.fill_diagonal(w, 0)
    return float(np.trace(np.kron(np.diag(w.sum(axis=1)) - w, W.T @ W)))


def operands(n: int, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Causal attention with rows of sum 1, and W_V."""
    rng = np.random.default_rng(0)
    A = np.tril(rng.random((n, n)))
    return A / A.sum(axis=1, keepdims=True), rng.standard_normal((d, d))


def seconds(work: object, A: NDArray[np.float64], W: NDArray[np.float64], inner: int) -> float:
    """Wall-clock time of one call, averaged over `inner`."""
    start = time.perf_counter()
    for _ in range(inner):
        work(A, W)  # type: ignore[operator]
    return (time.perf_counter() - start) / inner


def measured(repeats: int) -> pd.DataFrame:
    """Median, lowest and highest time at every point of the grid; rounds go over the whole grid."""
    times_of: dict[tuple[int, int], list[float]] = {(n, d): [] for n in LENGTHS for d in WIDTHS}
    attention = {n: operands(n, 1)[0] for n in LENGTHS}
    values = {d: operands(1, d)[1] for d in WIDTHS}
    for _ in range(repeats):
        for (n, d), times in times_of.items():
            inner = max(1, round(2e6 / (n * n + d * d)))
            times.append(seconds(trace, attention[n], values[d], inner))
    rows = [
        (n, d, statistics.median(times), min(times), max(times))
        for (n, d), times in times_of.items()
    ]
    return pd.DataFrame(
        rows, columns=["n", "d", "seconds_median", "seconds_lowest", "seconds_highest"]
    )


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """α and β with 95% intervals, from least squares of ln t against ln(c + a n^α + b d^β)."""

    def model(
        x: NDArray[np.float64], c: float, a: float, alpha: float, b: float, beta: float
    ) -> NDArray[np.float64]:
        return np.log(
            np.exp(c) + np.exp(a + alpha * np.log(x[0])) + np.exp(b + beta * np.log(x[1]))
        )

    x = table[["n", "d"]].to_numpy(np.float64).T
    start = (np.log(1e-5), np.log(1e-9), 2.0, np.log(1e-9), 2.0)
    estimates, covariance = curve_fit(
        model, x, np.log(table["seconds_median"]), p0=start, maxfev=20000
    )
    wide = student.ppf(0.975, len(table) - len(estimates)) * np.sqrt(np.diag(covariance))
    rest = float(np.std(np.log(table["seconds_median"]) - model(x, *estimates)))
    rows = [
        (name, estimates[i], estimates[i] - wide[i], estimates[i] + wide[i], rest)
        for name, i in (("alpha (n)", 2), ("beta (d)", 4))
    ]
    return pd.DataFrame(
        rows, columns=["exponent", "estimate", "lower", "upper", "residual_sd_of_ln_t"]
    )


def against_dense(repeats: int) -> pd.DataFrame:
    """Time of building the operator for the same number, and their relative difference."""
    rows = []
    for n, d in DENSE:
        A, W = operands(n, d)
        pairs = [(seconds(trace, A, W, 20), seconds(dense_trace, A, W, 1)) for _ in range(repeats)]
        ratio = statistics.median(dense / ours for ours, dense in pairs)
        rows.append((n, d, ratio, abs(trace(A, W) / dense_trace(A, W) - 1)))
    return pd.DataFrame(rows, columns=["n", "d", "times_slower_when_built", "relative_difference"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    load = [os.getloadavg()[0]]
    times, dense = measured(repeats), against_dense(repeats)
    load.append(os.getloadavg()[0])
    fitted = exponents(times)
    RESULTS.mkdir(exist_ok=True)
    for name, table in (("cost", times), ("exponents", fitted), ("dense", dense)):
        place = RESULTS if name == "cost" else RESULTS.parents[1] / "data" / "timings"
        table.to_csv(
            place / f"sheaf-{name}.csv", index=False, float_format="%.4g", lineterminator="\n"
        )
    page = [
        "# Cost of the sheaf Laplacian's trace",
        "",
        "Expected O(n² + d²). Fit of t(n, d) = c + a n^α + b d^β to wall-clock medians of "
        f"{repeats} rounds, one thread, float64; 95% intervals.",
        f"Load average {load[0]:.1f} before and {load[1]:.1f} after. Times are in sheaf-cost.csv.",
        "",
        markdown(fitted),
        "",
        "## Beside building the operator, n·d × n·d",
        "",
        markdown(dense),
        "",
    ]
    (RESULTS / "sheaf-cost.md").write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
