"""Rival explanations of the same outcomes, compared by evidence and by how they predict what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import held_out_of
from thermostats.modelling.mixture import Mixture


def compare(rivals: Mapping[str, Gaussian | Mixture], folds: Mapping[str, Sequence[str]], *, seed: int) -> pd.DataFrame:
    """One row per rival, best evidence first.

    `log_evidence` and `probability` (equal prior odds); for every way f to fold the rows: `elpd_<f>`, the sum over
    folds of the log density of the fold given all others; `difference_<f>` to the rival best by f and `se_<f>`, the
    standard error of that difference over folds, √(K var_k).

    Raises UsageError where a way to fold has fewer than 2 folds.
    """
    mixtures = {
        name: rival if isinstance(rival, Mixture) else Mixture(nodes=(rival,), weights=np.ones(1), seed=seed)
        for name, rival in rivals.items()
    }
    evidence = {name: mixture.log_evidence for name, mixture in mixtures.items()}
    table = pd.DataFrame({"rival": list(evidence), "log_evidence": list(evidence.values())})
    table["probability"] = np.exp(table["log_evidence"] - logsumexp(table["log_evidence"]))
    for way, names in folds.items():
        if len(set(names)) < 2:
            raise UsageError("nothing to leave out", where=way, got=f"{len(set(names))} fold", allowed="at least 2")
        by_fold = np.array(
            [list(held_out_of(mixture, names, seed=seed).log_density.values()) for mixture in mixtures.values()]
        )
        gaps = by_fold - by_fold[by_fold.sum(axis=1).argmax()]
        table[f"elpd_{way}"] = by_fold.sum(axis=1)
        table[f"difference_{way}"] = gaps.sum(axis=1)
        table[f"se_{way}"] = np.sqrt(by_fold.shape[1] * gaps.var(axis=1, ddof=1))
    return table.sort_values("log_evidence", ascending=False, ignore_index=True)
