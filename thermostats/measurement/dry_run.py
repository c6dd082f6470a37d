"""What measuring a spec would do, in which memory, disk and time, and what of it cannot be measured, and why.

Of a model that is not on this machine no more than its configuration is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.architectures import eager_is_wrong, lookup
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.engines import Job
from thermostats.measurement.estimate import Place, refusal, seconds
from thermostats.measurement.hub import config_folder, download_bytes
from thermostats.measurement.model_row import stored_dtype
from thermostats.measurement.outcome import Cost, Outcome, Problem, failed
from thermostats.measurement.plan import folder_of, plan
from thermostats.measurement.quantised import check_quantised
from thermostats.measurement.spec import WHAT, RunSpec
from thermostats.measurement.spectra import read_config
from thermostats.measurement.switches import check_switches


def planned(job: Job, texts: Sequence[str], data: Path, place: Place) -> Outcome:
    """The outcome `planned`, or `skipped`, or `failed` where nothing can be measured.

    Of what is planned `gigabytes` is memory, `disk` what is downloaded, `seconds` what the forward passes take at the
    rate of the place, `reason` what cannot be measured.
    """
    spec = job.spec
    try:
        if job.need is not None and (refused := refusal(spec, job.need, place)) is not None:
            raise refused
        folder = configured(spec)
        cannot = lacking(folder, spec)
        if set(cannot) == set(spec.what):
            raise ThermostatsError("nothing of it can be measured", where=spec.model, got=_words(cannot))
        left = replace(spec, what=tuple(name for name in spec.what if name not in cannot))
        outcome, disk = _of_files(left, data)
    except Exception as error:  # told as an outcome, as when it is measured
        return failed(spec, error)
    if outcome.status == "skipped" or job.need is None:
        return replace(outcome, cost=Cost(disk=disk))
    passes = len({WHAT[name][0] for name in left.what} - {"weights"})
    took = seconds(job.need.n_params, texts, passes, place.kind)
    cost = Cost(float(f"{job.need.total / 1e9:.3g}"), disk, float(f"{took:.2g}"))
    n_params = outcome.n_params or job.need.n_params
    return replace(outcome, n_params=n_params, cost=cost, problem=Problem(_words(cannot)))


def configured(spec: RunSpec) -> Path:
    """A folder with the configuration of a spec's model, fetched where it may be."""
    cache = None if spec.cache is None else Path(spec.cache)
    return config_folder(spec.model, revision=spec.revision, download=spec.download, cache=cache)


def lacking(folder: Path, spec: RunSpec) -> Mapping[str, str]:
    """Of the kinds of quantity asked for those that cannot be measured, each with the reason; from the configuration.

    Raises ThermostatsError for a class that is not measured, a setting that no entry describes, or a quantised model.
    """
    images = spec.prompts == "images" or Path(spec.prompts).is_dir()
    config = read_config(folder, "image" if images else "text")
    check_switches(spec, config, folder)
    entry = lookup(config)
    check_quantised(config, folder)
    try:
        stored_dtype(open_checkpoint(folder))
    except DataError as error:
        if "quantised" in str(error):  # weights that are not here are no reason
            raise
    reasons = {"outputs": "" if entry.has_head else "the model has no next-token distribution", "attention": ""}
    if entry.mixers:
        reasons["attention"] = f"attention has another module in its place in some blocks: {', '.join(entry.mixers)}"
    elif entry.depths:
        reasons["attention"] = "the model attends within windows, whose graphs have no estimand here"
    elif eager_is_wrong(entry, config):
        reasons["attention"] = "eager attention is wrong for this model: it computes something else than the default"
    return {name: reasons[name] for name in spec.what if reasons.get(name)}


def _of_files(spec: RunSpec, data: Path) -> tuple[Outcome, float]:
    """What is planned, and GB to download, which is 0 for a model that is here."""
    try:
        folder_of(replace(spec, download=False))
    except ThermostatsError:
        if not spec.download:
            raise
        gigabytes = float(f"{download_bytes(spec.model, revision=spec.revision) / 1e9:.3g}")
        return Outcome(spec.model, "planned", spec.revision), gigabytes
    here = plan(spec, data)
    return here.outcome("skipped" if here.finished else "planned"), 0.0


def _words(cannot: Mapping[str, str]) -> str:
    return "; ".join(f"no {name}: {why}" for name, why in cannot.items())
