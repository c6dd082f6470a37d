"""Posteriors of claim 18, whose fits take minutes, and C19's line where there are models enough for it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.posterior import both
from thermostats.studies.delia2026 import unembedding
from thermostats.studies.delia2026.anomalies import LLAMA_FILE
from thermostats.studies.delia2026.by_prompt import BENCHMARK, gain_by_prompt

ROOT = Path(__file__).parents[2]


def module(claim: str) -> ModuleType:
    path = next((ROOT / "analyses").glob(f"{claim}_*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def fitted(claim: str) -> list[Finding]:
    findings = [f for f in module(claim).analyse(Evidence(ROOT / "data")) if f.posterior is not None]
    for finding in findings:
        assert finding.verdict == both(finding.posterior.classical, finding.posterior)
    return findings


@pytest.mark.slow
def test_c18_slope_and_difference_have_the_side_of_their_tests():
    for finding in fitted("c18"):
        assert (finding.estimate > 0) == (
            (finding.posterior.probability > 0.5) == ("slope" in finding.posterior.statement)
        )


@pytest.mark.parametrize(("slope", "verdict"), [(-0.5, "supported"), (0.5, "not supported")])
def test_c19_fits_a_line_where_there_are_models_enough(slope, verdict, monkeypatch):
    tables = Evidence(ROOT / "data")
    names = [f"lab{k % 4}/model{k}" for k in range(12)]
    norm = np.exp(np.linspace(0, 3, 12))
    lab = [name.split("/")[0] for name in names]
    spectra = pd.DataFrame({"model_id": names, "heritage": lab, "matrix": "unembedding", "source": LLAMA_FILE})
    noise = 0.05 * np.random.default_rng(0).normal(size=12)
    copied = pd.DataFrame(
        {"model_id": names, "source": LLAMA_FILE, "statistic": "last gain, copied by hand", "pointer": ""}
    )
    tables.table("weights"), tables.table("statements")
    statements = tables._loaded["statements"]
    statements = statements[
        ~((statements["source"] == LLAMA_FILE) & (statements["statistic"] == copied["statistic"][0]))
    ]
    tables._loaded["weights"] = spectra.assign(spectral_norm=norm)
    tables._loaded["statements"] = pd.concat([statements, copied.assign(value=np.exp(noise) * norm**slope)])
    monkeypatch.setattr(unembedding, "projectors", lambda *_: {})
    found = unembedding.unembedding(tables, gain_by_prompt(tables, "last_gain", BENCHMARK))
    assert found.posterior is not None and found.verdict == verdict
