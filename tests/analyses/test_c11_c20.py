"""Analyses of claims 11 to 20: figures against the printed ones, and verdicts that turn when the tables do."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.tables.schemas import VERDICTS
from thermostats.words import agrees, comparison

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "analyses").glob("c[12]*.py") if "c11" <= path.stem[:3] <= "c20")
SLOW = ("c18",)
"""Their fits take minutes: `test_c11_c19_posteriors.py`."""
GAIN_FILES = ("thermodynamic_benchmark", "twin_test", "gpt2_layernorm", "gptj_parallel")


def module(claim: str) -> ModuleType:
    path = next((ROOT / "analyses").glob(f"{claim}_*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def shipped() -> Evidence:
    return Evidence(ROOT / "data")


@pytest.fixture(scope="module")
def found(shipped) -> dict[str, list[Finding]]:
    return {
        claim: (by_tests_alone if claim in SLOW else module)(claim).analyse(shipped.fork())
        for claim in (name[:3] for name in NAMES)
    }


def altered(shipped: Evidence, **change: Callable[[pd.DataFrame], pd.DataFrame]) -> Evidence:
    """The shipped tables with some of them changed."""
    tables = Evidence(shipped.data)
    shipped.read("layers")
    tables._loaded = dict(shipped._loaded)
    for name, changed in change.items():
        tables._loaded[name] = changed(shipped._joined(name).copy())
    return tables


def scaled(where: Callable[[pd.DataFrame], pd.Series], by: float, column: str = "gain_block"):
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[where(frame), column] *= by
        return frame

    return change


def of(model: str, file: str = "") -> Callable[[pd.DataFrame], pd.Series]:
    return lambda f: f["model_id"].str.endswith(model) & f["source"].str.startswith(file)


def by_tests_alone(claim: str) -> ModuleType:
    """An analysis that leaves its findings as the classical tests have them: what turns those takes no sampling."""
    analysis = module(claim)
    for name in ("with_slope", "with_line"):
        if hasattr(analysis, name):
            setattr(analysis, name, lambda found, *_, **__: found)
    return analysis


def verdicts(findings: list[Finding]) -> list[str]:
    return [finding.verdict for finding in findings]


def test_every_claim_has_one_analysis_and_it_runs_on_the_shipped_tables(found):
    assert list(found) == [f"c{n}" for n in range(11, 21)]
    for findings in found.values():
        for finding in findings:
            assert finding.verdict in VERDICTS and finding.plain.endswith(".")
            assert not {"nan", "None", "inf"} & set(finding.plain.replace(",", " ").replace("[", " ").split())
            assert finding.draw is None or finding.caption


FOLLOW = {"c13": 6, "c17": 22, "c18": 42, "c19": 49, "c20": 12}
"""Least number of published figures that each claim shows."""
DO_NOT_FOLLOW = {"c13": {"accuracy without, %"}, "c17": {"exponent as claimed"}}


@pytest.mark.parametrize("claim", list(FOLLOW))
def test_published_figures_are_all_recomputed_and_agree_but_for_those_that_do_not_follow(found, claim):
    rows = [row for finding in found[claim] for row in comparison(finding.published, finding.reproduced)]
    printed = {row.name: row.agrees for row in rows if row.published}
    assert len(printed) >= FOLLOW[claim]
    assert {name for name, agrees in printed.items() if agrees is not True} == DO_NOT_FOLLOW.get(claim, set())


def test_figures_known_from_the_study(found):
    by_name = {claim: {k: v for f in fs for k, v in f.reproduced.items()} for claim, fs in found.items()}
    for claim, name, printed in (
        ("c13", "hunt, without the norm, %", 43.75),
        ("c13", "two models, without, %", 100.0),
        ("c17", "exponent", 0.265),
        ("c17", "standard error of the exponent", 0.079),
        ("c17", "p of the exponent against 0", 0.0152098),
        ("c18", "gemma-7b Spearman", 0.6292308),
        ("c18", "Llama-3.1-8B Pearson", 0.5935266),
        ("c18", "Mistral-7B-v0.1 t", -2.00026),
        ("c18", "gpt2-xl Pearson of entropy and |gain − 1|", 0.0446425),
        ("c19", "gpt2-xl one-sided p", 0.9996026),
        ("c19", "gpt-j-6b t", 3.6334906),
        ("c20", "product of pythia-6.9b", 249.4492),
        ("c20", "product of Apertus-8B-2509", 17212.091),
    ):
        assert agrees(name, printed, by_name[claim][name]), (claim, name, by_name[claim][name])


def test_figures_that_do_not_follow_are_shown_not_to(found):
    exponent = comparison(found["c17"][0].published, found["c17"][0].reproduced)[0]
    norm = {row.name: row.agrees for row in comparison(found["c13"][0].published, found["c13"][0].reproduced)}
    assert not exponent.agrees
    assert norm["accuracy with the norm, %"] and not norm["accuracy without, %"]


@pytest.mark.parametrize(("levels", "verdict"), [((0, 2, 0.5, 3, 1), "supported"), ((0, 3, 1), "not supported")])
def test_c15_counts_the_phases_of_measured_curves(shipped, found, levels, verdict):
    assert found["c15"][0].verdict == "needs measurement"

    def curves(frame: pd.DataFrame) -> pd.DataFrame:
        rng = np.random.default_rng(1)
        curve = np.repeat(np.array(levels) / 5, 60 // len(levels))
        rows = [
            {
                "model_id": f"m{m}",
                "heritage": f"lab{m % 3}",
                "source": "made up",
                "revision": "main",
                "layer": l,
                "anisotropy": a + 0.01 * rng.normal(),
            }
            for m in range(12)
            for l, a in enumerate(curve, 1)  # noqa: E741
        ]
        return pd.DataFrame(rows)

    assert module("c15").analyse(altered(shipped, layers=curves))[0].verdict == verdict


@pytest.mark.parametrize(("exponent", "verdict"), [(0.35, "supported"), (0.1, "not supported")])
def test_c17_follows_the_exponent_where_the_rest_holds(shipped, found, exponent, verdict):
    assert found["c17"][0].verdict == "not supported"
    models = shipped.read("models").set_index("model_id")

    def law(frame: pd.DataFrame) -> pd.DataFrame:
        rows = of("", "scaling_law")(frame)
        size = frame.loc[rows, "model_id"].map(models["n_params"]).astype(float)
        frame.loc[rows, "gain_attention"] *= 0.5
        wobble = 1 + 0.02 * np.sin(np.arange(int(rows.sum())))
        frame.loc[rows, "gain_mlp"] = 0.01 * size**exponent * wobble
        return frame

    whole, *_, last = module("c17").analyse(altered(shipped, layers=law))
    assert whole.verdict == verdict
    assert last.verdict == ("supported" if exponent > 0.3 else "not supported")


@pytest.mark.parametrize(("slope", "verdict"), [(0.3, "supported"), (-0.3, "not supported")])
def test_c18_follows_the_slope_of_gain_on_entropy(shipped, found, slope, verdict):
    assert verdicts(found["c18"])[:2] == ["inconclusive", "inconclusive"]
    assert found["c18"][1].n_models == 8 and found["c18"][0].probability == found["c18"][4].probability
    level = {"Cliche": 1.0, "Factual": 2.0, "Syntactic": 3.0, "Novel": 4.0, "Nonsense": 5.0}
    categories = shipped.read("prompts", prompt_set="study_25").set_index("prompt_id")["category"].map(level)
    noise = dict(zip(categories.index, np.random.default_rng(2).normal(0, 0.2, len(categories)), strict=True))

    def entropies(frame: pd.DataFrame) -> pd.DataFrame:
        frame["entropy"] = frame["prompt_id"].map(lambda p: categories.get(p, 1.0) + noise.get(p, 0.0))
        return frame

    def follow(frame: pd.DataFrame) -> pd.DataFrame:
        rows = frame["source"].str.startswith(GAIN_FILES)
        x = frame.loc[rows, "prompt_id"].map(lambda p: categories[p] + noise[p])
        frame.loc[rows, "gain_block"] = np.exp(slope * x + 0.01 * np.random.default_rng(3).normal(size=len(x)))
        return frame

    analysis = by_tests_alone("c18")
    analysis.RESAMPLES = 499
    changed = analysis.analyse(altered(shipped, layers=follow, outputs=entropies))
    assert changed[0].verdict == verdict and changed[4].verdict == "supported"


def test_models_measured_here_have_findings_of_their_own(shipped):
    def again(frame: pd.DataFrame) -> pd.DataFrame:
        more = frame[of("", "thermo")(frame)]
        return pd.concat([frame, more.assign(source="thermostats", run_id=more["run_id"] + "-again")])

    mine = altered(shipped, runs=again, layers=again, outputs=again, summaries=again)
    for claim, count in (("c18", 1),):
        analysis = by_tests_alone(claim)
        analysis.RESAMPLES = 199
        findings = analysis.analyse(mine)
        assert all("measured here" in finding.estimand for finding in findings[-count:])
    assert findings[-1].estimate == pytest.approx(findings[2].estimate), "the four of the benchmark once more"


@pytest.mark.slow
def test_c19_an_explanation_stands_when_the_gain_does_dampen(shipped, found):
    whole, opt, unembedding, llama, gpt2, gptj, silent = verdicts(found["c19"])[:7]
    assert (whole, opt, unembedding) == ("not supported", "supported", "inconclusive")
    assert found["c19"][1].n_models == 2, "a third of a fused matrix is not W_V and judges nothing"
    assert llama == gpt2 == gptj == "not supported" and silent == "inconclusive"
    assert [f.posterior is None for f in found["c19"]][:7] == [True] * 3 + [False] * 4
    assert all(f.posterior.gate.passes for f in found["c19"][3:7])
    quiet = altered(shipped, layers=scaled(of("Llama-3.1-8B", "thermo"), 0.4))
    assert module("c19").analyse(quiet)[0].verdict == "inconclusive", "what the study rejects itself is not its claim"
    halved = altered(shipped, layers=scaled(lambda f: f["source"].str.startswith(GAIN_FILES), 0.4))
    assert verdicts(module("c19").analyse(halved))[3:7] == ["supported"] * 3 + ["not supported"]
    still = altered(shipped, layers=scaled(of("Mistral-7B-v0.1", "thermo"), 0.92))
    assert by_tests_alone("c19").analyse(still)[6].verdict == "supported"
    heavy = altered(shipped, attention=scaled(of("opt-125m", "H4_v2"), 30.0, "trace"))
    assert by_tests_alone("c19").analyse(heavy)[1].verdict == "not supported"


def test_c20_one_family_that_loses_is_enough_against_it(shipped, found):
    assert verdicts(found["c20"]) == ["supported", "inconclusive"]
    losing = altered(shipped, layers=scaled(of("falcon-7b"), 0.8))
    assert module("c20").analyse(losing)[0].verdict == "not supported"
