"""Steer a model's gain, or change a model without training, and say what it costs: `steer` and
`do`."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from thermostats.errors import (
    DataError,
    UsageError,
    build_unknown_error,
    describe_file_error,
    make_list,
)
from thermostats.measurement.actions import change_model, expand_action, is_stored, parse_actions
from thermostats.measurement.forward import Decoder
from thermostats.measurement.intervention_rows import (
    RowKeeper,
    Subject,
    build_frame,
    describe_action,
    describe_steering,
    name_steering,
)
from thermostats.measurement.opened_models import ModelRequest, OpenedModel, announce, open_model
from thermostats.measurement.prices import measure_matrices, merge_json
from thermostats.measurement.session import Bars, ProgressLines
from thermostats.measurement.steering import BaseOutputs, Goal, Progress, steer_model
from thermostats.measurement.steering_spec import (
    FACTORS,
    SteeringSettings,
    SteeringSpec,
    choose_settings,
    find_gain,
    mirror_target,
)
from thermostats.measurement.stream_logs import check_gain
from thermostats.tables.folders import find_own_folder, start_folder
from thermostats.terminal import is_progress_seen

STATES = ".steering"
"""Folder in a data folder for states of trainings that are under way."""
OF_MODEL = ("device", "name", "lab")
"""Settings that say which model is meant and where it runs."""


def steer(
    model: Any,
    tokenizer: Any = None,
    data: str | Path | None = None,
    *,
    gain: str | int = "penultimate_gain",
    to: float | Sequence[float] | None = None,
    only: str | Sequence[str] = (),
    rank: int | None = None,
    until: float | None = None,
    prompts: str | Path | Sequence[str] | None = None,
    also: str | Path | None = None,
    save: str | Path | None = None,
    seed: int = 1,
    dtype: str = "float32",
    dry_run: bool = False,
    **settings: Any,
) -> pd.DataFrame:
    """Move one gain of a model to targets, and return what each costs in KL: the price curve.

        mean KL(p‖q) + w (log g − log t)², the least over copies q of the model p

    It is taken on texts that p sampled itself. With every target comes its mirror g²/t, as far on
    the other side of where the gain was, and once the floor: the same steps without a target. A
    price is an upper bound: more steps and more texts can only lower it. With a data folder what is
    finished is not trained again, and an interrupted call is resumed by the same one.

    Parameters
    ----------
    model : str, Path or transformers model
        A hub id or a model's folder, in whose case the data folder may stand second; or a
        transformers model in memory with its tokenizer. It is never changed.
    tokenizer : transformers tokenizer
        Of a model in memory.
    data : str or Path
        Folder in which rows are kept; without one they are returned and kept nowhere.
    gain : str or int
        One of the tables' gains, with or without the word gain, or a block's number.
    to : float or sequence of float
        Targets; by default exp(±.1, ±.2, ±.4) times the model's own gain.
    only : str or sequence of str
        Blocks (`3`, `2-4`) and parts (W_V, W_O, attention, mlp, norms, embedding, unembedding) that
        may change.
    rank : int
        Of adapters (LoRA), which need peft.
    until : float
        Add steps until the price changes by less than this share.
    prompts : str, Path or sequence of str
        A prompt set, a file or a list of texts in place of samples; a third is held out.
    also : str or Path
        A prompt set or file on which cross-entropy and gains are read besides.
    save : str or Path
        Folder for the steered model, with a folder in it for each target where there are several.
    seed : int
        Of samples and training.
    dtype : str
        Precision of the weights.
    dry_run : bool
        Say what it takes, and train nothing.
    **settings
        Those of `SteeringSettings` (steps, penalty, rate, batch, texts, held_out, tokens, every),
        device, name and lab.

    Returns
    -------
    DataFrame
        Rows of the table `interventions`, with model_id and revision: KL and cross-entropy in nats
        a token on further sampled texts, with 95% bootstrap intervals, every gain before and after,
        the share of texts whose gain is beyond 1, and the relative change of the weights.

    Raises
    ------
    UsageError
        For what cannot be asked of a model.
    DataError, ThermostatsError
        Where it cannot be loaded or a training diverges, of which there is no row.

    Examples
    --------
    A tiny model with random weights, and a tokenizer of seven words; no target but one and few
    steps:

    >>> import tokenizers
    >>> import transformers
    >>> import thermostats
    >>> words = {word: number for number, word in enumerate("? a b c d e f".split())}
    >>> vocabulary = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    >>> tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="?")
    >>> transformers.set_seed(1)
    >>> shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 8, "n_positions": 24}
    >>> config = transformers.GPT2Config(**shape, bos_token_id=1, eos_token_id=1)
    >>> model = transformers.GPT2LMHeadModel(config).eval()
    >>> few = {"steps": 4, "texts": 16, "tokens": 12, "batch": 4}
    >>> prices = thermostats.steer(model, tokenizer, to=1.1, **few)
    >>> prices["operation"].tolist(), bool((prices["kl"] >= 0).all())
    (['floor', 'steer', 'steer'], True)
    """
    model, tokenizer, data = _order_arguments(model, tokenizer, data)
    _check_settings(settings, "steer")
    names = make_list(only, "only") or ()
    chosen = choose_settings(settings)
    spec = SteeringSpec.build(
        gain, to, only=names, rank=rank, least_change=until, seed=seed, settings=chosen
    )
    saving = _check_place(save, model)
    request = _build_request(model, tokenizer, data, prompts, dtype, settings)
    reads_texts = prompts is not None or also is not None
    with _begin_folder(request.data), open_model(request, reads_texts=reads_texts) as opened:
        check_gain(spec.gain, opened.base)
        display = _choose_display()
        moved = 2 * len(spec.targets) if spec.targets else len(FACTORS)
        trainings = 1 + moved
        announce(opened, spec, trainings, display.show)
        if dry_run:
            return _build_empty()
        with display.bars:
            curve = PriceCurve.begin(opened, spec, also, saving)
            for goal in curve.list_goals():
                curve.take(goal, _report_steps(display, opened.label, goal))
        return curve.keeper.join_frames()


@dataclass(frozen=True)
class PriceCurve:
    """A price curve under way: a model with its texts, what is asked of it, and where its rows
    go."""

    opened: OpenedModel
    subject: Subject
    spec: SteeringSpec
    outputs: BaseOutputs
    keeper: RowKeeper
    saving: Path | None = None

    @classmethod
    def begin(
        cls,
        opened: OpenedModel,
        spec: SteeringSpec,
        also: str | Path | None = None,
        saving: Path | None = None,
    ) -> PriceCurve:
        """The curve of a model that is open, its texts sampled and read."""
        trained, held_out = opened.split_samples(spec.settings, spec.seed)
        real = None if also is None else opened.read_texts(also)
        subject = Subject.read(opened.base, trained, held_out, real)
        outputs = BaseOutputs(opened.base, trained)
        return cls(opened, subject, spec, outputs, opened.keep_rows(), saving)

    def list_goals(self) -> list[Goal]:
        """The floor, then every target with its mirror, each once."""
        gain = self.spec.gain
        start = self.subject.start(gain)
        targets = self.spec.targets or tuple(start * factor for factor in FACTORS)
        wanted: list[float] = []
        for target in targets:
            for each in (target, mirror_target(start, target)):
                if not any(abs(each / other - 1) < 1e-9 for other in wanted):
                    wanted.append(each)
        return [Goal(gain, None), *(Goal(gain, target) for target in wanted)]

    def take(self, goal: Goal, progress: Progress | None = None) -> None:
        """Train a copy to a goal and keep its row, and the copy where asked for; not what is there
        already."""
        rate = self.spec.settings.scale_rate(self.opened.width)
        name = name_steering(goal, self.spec, rate)
        place = self._find_place(goal)
        if (place is None or place.is_dir()) and self.keeper.take_row(name):
            return
        began = perf_counter()
        price = self.subject.price
        state = self._find_state(name)
        steered = steer_model(
            self.opened.base, self.outputs, goal, self.spec, price, state=state, progress=progress
        )
        facts = describe_steering(goal, self.spec, steered.steps, rate)
        row = self.subject.describe_change(steered.decoder, facts["gain"], facts)
        if place is not None:
            save_model(steered.decoder, self.opened.loaded.tokenizer, place)
        self.keeper.keep(row, perf_counter() - began)

    def _find_state(self, name: str) -> Path | None:
        """The file by which an interrupted training is resumed; None where there is no data
        folder."""
        data = self.opened.request.data
        if data is None:
            return None
        named = f"{self.keeper.run['run_id']}\n{name}"
        digest = hashlib.sha256(named.encode()).hexdigest()[:16]
        return data / STATES / f"{digest}.pt"

    def _find_place(self, goal: Goal) -> Path | None:
        """Where the model of a goal is saved; None where it is not: floors and mirrors are not
        asked for."""
        if self.saving is None or goal.target is None:
            return None
        targets = self.spec.targets
        if targets and goal.target not in targets:
            return None
        if len(targets) == 1:
            return self.saving
        return self.saving / f"{goal.gain.replace(' ', '_')}-{goal.target:.6g}"


def do(
    model: Any,
    what: str | Sequence[str],
    tokenizer: Any = None,
    data: str | Path | None = None,
    *,
    gain: str | int | None = None,
    prompts: str | Path | Sequence[str] | None = None,
    also: str | Path | None = None,
    save: str | Path | None = None,
    seed: int = 1,
    dtype: str = "float32",
    **settings: Any,
) -> pd.DataFrame:
    """Change a model without training, and return what it costs and what it moves, a row a change.

    Parameters
    ----------
    model : str, Path or transformers model
        As in `steer`; the model itself is never changed.
    what : str or sequence of str
        `W_V * 2`, `W_O / 2`, `W_V 2-4 * 2` (b_V goes with W_V), `block 3 * 0.5` (what block 3
        writes), `without block 3`, `without every block` (each in turn), `stream + 64`, `stream 3 -
        8` (a times the vector of ones); several in one text, separated by commas, are done
        together.
    tokenizer, data
        As in `steer`.
    gain : str or int
        The gain that a row is about besides all others; by default the penultimate, of one block
        the last.
    prompts, also
        As in `steer`.
    save : str or Path
        Folder for the changed model, of changes of W_V and W_O alone.
    seed, dtype, **settings
        As in `steer`.

    Returns
    -------
    DataFrame
        Rows of the table `interventions`, with model_id and revision; `gains_after` also has the
        spectral norms of W_V and W_O and their ratio.

    Raises
    ------
    UsageError, DataError, ThermostatsError
        As `steer` does.

    Examples
    --------
    W_V twice and W_O half as large is the same function, of another ratio; a tiny model with random
    weights shows it:

    >>> import tokenizers
    >>> import transformers
    >>> import thermostats
    >>> words = {word: number for number, word in enumerate("? a b c d e f".split())}
    >>> vocabulary = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    >>> tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="?")
    >>> transformers.set_seed(1)
    >>> shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 8, "n_positions": 24}
    >>> config = transformers.GPT2Config(**shape, bos_token_id=1, eos_token_id=1)
    >>> model = transformers.GPT2LMHeadModel(config).eval()
    >>> changes = ["W_V * 2, W_O / 2", "without block 2"]
    >>> rows = thermostats.do(model, changes, tokenizer, texts=16, tokens=12)
    >>> (rows["kl"] > 1e-6).tolist()
    [False, True]
    """
    texts = make_list(what, "what") or []
    model, tokenizer, data = _order_arguments(model, tokenizer, data)
    _check_settings(settings, "do")
    chosen = choose_settings(settings)
    saving = _check_place(save, model)
    request = _build_request(model, tokenizer, data, prompts, dtype, settings)
    reads_texts = prompts is not None or also is not None
    with _begin_folder(request.data), open_model(request, reads_texts=reads_texts) as opened:
        depth = len(opened.base.blocks)
        wanted = [each for text in texts for each in expand_action(text, depth)]
        changes = {text: parse_actions(text, depth) for text in wanted}
        if saving is not None and not (len(changes) == 1 and all(map(is_stored, changes.values()))):
            what_ = "only one change of W_V and W_O can be saved: others are no change of weights"
            raise UsageError(what_, where="save", got="; ".join(wanted), allowed="W_V * 2")
        of_gain = find_gain(gain or ("penultimate_gain" if depth > 1 else "last_gain"))
        check_gain(of_gain, opened.base)
        real = None if also is None else opened.read_texts(also)
        held_out = opened.hold_out(chosen, seed)
        subject = Subject.read(opened.base, None, held_out, real)
        keeper = opened.keep_rows()
        norms = measure_matrices(opened.base)
        for text, actions in changes.items():
            began = perf_counter()
            changed = change_model(opened.base, actions)
            facts = describe_action(text, of_gain, chosen, seed)
            row = subject.describe_change(changed, of_gain, facts)
            row = add_norms(row, norms, measure_matrices(changed))
            if saving is not None:
                save_model(changed, opened.loaded.tokenizer, saving)
            if not keeper.take_row(facts["intervention"]):
                keeper.keep(row, perf_counter() - began)
        return keeper.join_frames()


def save_model(places: Decoder, tokenizer: Any, folder: Path) -> None:
    """Write a changed model and its tokenizer to a new folder, whole or not at all.

    Raises DataError where it cannot be written.
    """
    part = folder.with_name(f".{folder.name}.part")
    model: Any = places.model
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        model.save_pretrained(part)
        if tokenizer is not None:
            tokenizer.save_pretrained(part)
        part.replace(folder)
    except OSError as error:
        raise DataError(
            "cannot save the model", where=folder, got=describe_file_error(error)
        ) from error


def _order_arguments(model: Any, tokenizer: Any, data: Any) -> tuple[Any, Any, Any]:
    """Model, tokenizer and data folder, where a named model has its folder in the tokenizer's
    place."""
    named = isinstance(model, (str, Path))
    if named and isinstance(tokenizer, (str, Path)) and data is None:
        return model, None, tokenizer
    return model, tokenizer, data


def _check_settings(settings: Mapping[str, Any], function: str) -> None:
    """Raise UsageError for a setting that there is not."""
    allowed = [*(each.name for each in fields(SteeringSettings)), *OF_MODEL]
    for name in settings:
        if name not in allowed:
            raise build_unknown_error("no such setting", name, allowed, where=function)


def _build_request(
    model: Any, tokenizer: Any, data: Any, prompts: Any, dtype: str, settings: Mapping[str, Any]
) -> ModelRequest:
    """What is asked for, with the folder of rows where one is named."""
    chosen = {name: settings[name] for name in OF_MODEL if name in settings}
    try:
        folder = find_own_folder(data)
    except UsageError:
        if data is not None:
            raise
        folder = None
    return ModelRequest(model, tokenizer, folder, prompts, dtype, **chosen)


@contextmanager
def _begin_folder(data: Path | None) -> Iterator[None]:
    """The data folder, made where it is new."""
    with nullcontext() if data is None else start_folder(data):
        yield


def _check_place(save: str | Path | None, model: Any) -> Path | None:
    """Where to save to. Raises UsageError for a folder with something in it, or the model's own."""
    if save is None:
        return None
    folder = Path(save)
    of_model = isinstance(model, (str, Path)) and Path(model).is_dir()
    if of_model and folder.resolve().is_relative_to(Path(model).resolve()):
        what = "a changed model is not saved into the folder of the model itself"
        raise UsageError(what, where=folder, next_step="name another folder")
    there = folder.is_dir() and any(folder.iterdir())
    if (folder.exists() and not folder.is_dir()) or (there and not _is_saved(folder)):
        what = "the folder to save to holds something else"
        raise UsageError(what, where=folder, next_step="name a new one")
    return folder


def _is_saved(folder: Path) -> bool:
    """Whether a folder holds a model, or folders of models alone."""
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if (folder / "config.json").is_file():
        return True
    return all((path / "config.json").is_file() for path in inside)


def _choose_display() -> Any:
    """Progress on standard error: bars on a terminal, else lines."""
    return Bars() if is_progress_seen() and sys.stderr.isatty() else ProgressLines(every=20.0)


def _report_steps(display: Any, label: str, goal: Goal) -> Progress:
    """What is called with steps done and in all, of one goal."""
    aim = "floor" if goal.target is None else f"{goal.gain} to {goal.target:.4g}"
    report: Callable[[str, str, int, int], None] = display.report
    return lambda done, total: report(label, aim, done, total)


def _build_empty() -> pd.DataFrame:
    """The table's columns without rows."""
    return build_frame([]).assign(model_id="", revision="")


def add_norms(
    row: dict[str, Any], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, Any]:
    """A row whose gains before and after also have norms of W_V and W_O."""
    columns = {"gains_before": before, "gains_after": after}
    merged = {name: merge_json(row[name], more) for name, more in columns.items()}
    return {**row, **merged}
