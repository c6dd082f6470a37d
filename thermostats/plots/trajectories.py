"""A gain over training: one line per model through its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.errors import UsageError, unknown
from thermostats.plots.general import house_style, lines_by_layer
from thermostats.plots.scales import log_axis
from thermostats.tables.reading import features
from thermostats.tables.vocabulary import GAINS

LEAST = 2
"""Checkpoints that make a line."""


def trajectories(
    gain: str = "penultimate_gain",
    *,
    model: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    axes: Axes | None = None,
) -> Axes:
    """A named gain against training steps, with one line for each model and source that has two checkpoints or more.

    The step is the number in a revision such as `step4000`; a revision without one, such as `main`, is left out. model,
    family: as in `features`; the controlled study is included if it is named. Without `axes` a new figure is made.

    Raises UsageError for a gain that is none, and where no model has two checkpoints.
    """
    if gain not in GAINS:
        raise unknown("no such gain", gain, list(GAINS))
    rows = features(data, model=model, family=family, every=True).dropna(subset=gain)
    rows = rows.assign(step=rows["revision"].str.extract(r"(\d+)\D*$")[0].astype("float64")).dropna(subset="step")
    if model is None and family is None:
        rows = rows[rows["source"] != "nursery"]
    lines = rows.drop_duplicates(["model_id", "source", "step"])
    lines = lines[lines.groupby(["model_id", "source"])["step"].transform("size") >= LEAST]
    if lines.empty:
        step = "thermostats measure MODEL --revision step1000,step2000"
        raise UsageError("no model has two checkpoints with this gain", got=gain, next_step=step)
    with house_style():
        drawn = axes if axes is not None else Figure(layout="constrained").subplots()
        lines_by_layer(lines, drawn, y=gain, x="step", null=1.0)
        if lines["step"].min() > 0 and lines["step"].max() > 10 * lines["step"].min():
            log_axis(drawn, "x")
        drawn.set(xlabel="training step", ylabel=f"{gain.replace('_', ' ')} (ratio of norms)")
    return drawn
