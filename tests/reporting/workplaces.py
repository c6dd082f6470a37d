"""A store of two labs, and analyses small enough to run in every test."""

from __future__ import annotations

from pathlib import Path

from conftest import layer, model, run, table

from thermostats.tables import store

EVIL = "<script>alert(1)</script>|`x`"
ANALYSIS = '''
"""{id}: gains of one lab."""

from thermostats.reporting import plots
from thermostats.reporting.findings import Claim, Finding, run

CLAIM = Claim("{id}", "Gains of {lab} <b>", "said a|b", "mean gain", "rule", "figure 1")


def analyse(tables):
    rows = tables.read("layers", heritage="{lab}")[["model_id", "heritage", "layer", "gain_block"]]
    mean = float(rows["gain_block"].mean())
    plain = f"The mean gain is {{mean:.3f}} for {{rows['model_id'].iloc[0]}}. More | text."
    return [
        Finding(
            "{id}", "mean gain", "supported", plain, published={{"mean": 1.0, "p": 0.01}}, reproduced={{"mean": mean}},
            estimate=mean, lower=mean - 1, upper=mean + 1, interval="95 % made up", probability={p},
            probability_kind="p-value", n_models=1, n_heritages=1, table=rows, caption="Mean gain over layers.",
            draw={draw},
        )
    ]


if __name__ == "__main__":
    run(CLAIM, analyse)
'''
DRAW = 'lambda axes: plots.scatter_labelled(rows, axes, x="layer", y="gain_block")'


def write_analysis(folder: Path, claim: str, lab: str, p: float = 0.03, *, draws: bool = False) -> Path:
    """A sound analysis of one lab's gains, with or without a figure."""
    path = folder / f"{claim.lower()}_gains.py"
    path.write_text(ANALYSIS.format(id=claim, lab=lab, p=p, draw=DRAW if draws else None).lstrip(), encoding="utf-8")
    return path


def write_gains(data: Path, model_id: str, gain: float, source: str = "tests") -> None:
    """Measured gains of one model."""
    measured = run(model_id, source=source)
    rows = [layer(measured, number, gain * number) for number in (1, 2, 3)]
    store.save(table("runs", measured), "runs", data / "measured" / "runs" / f"{measured['run_id']}.csv")
    store.save(table("layers", *rows), "layers", data / "measured" / "layers" / f"{measured['run_id']}.csv")


def make_workplace(folder: Path, *, draws: bool = False) -> dict[str, Path]:
    """Folders `data`, `analyses` and `out` of a report on two labs, one of which has a model with a hostile name."""
    places = {name: folder / name for name in ("data", "analyses", "out")}
    for path in places.values():
        path.mkdir()
    models = table("models", model("meta/small", "Meta"), model(EVIL, "TII"))
    store.save(models, "models", places["data"] / "models.csv")
    prompts = [{"prompt_set": "two", "prompt_id": "a", "text_sha256": "0" * 64, "category": "Plain"}]
    store.save(table("prompts", *prompts), "prompts", places["data"] / "prompts.csv")
    write_gains(places["data"], "meta/small", 0.5)
    write_gains(places["data"], EVIL, 0.7)
    write_analysis(places["analyses"], "C01", "Meta", p=0.03, draws=draws)
    write_analysis(places["analyses"], "C02", "TII", p=0.02, draws=draws)
    return places
