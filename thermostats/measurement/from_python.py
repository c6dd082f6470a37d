"""Models measured from Python: by name, or in memory with their tokenizer; prompts as a list;
several revisions."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thermostats.errors import (
    ThermostatsError,
    UsageError,
    build_install_error,
    build_unknown_error,
    find_nearest,
    make_list,
    take_first_line,
)
from thermostats.measurement.forward import (
    Decoder,
    build_decoder,
    build_example,
    convert_to_array,
    hook_exit,
    prepare_model,
    run_forward_pass,
    turn_cache_off,
)
from thermostats.measurement.loading import load
from thermostats.measurement.lookup import lookup
from thermostats.measurement.model_class import Architecture
from thermostats.measurement.plan import MeasurementPlan
from thermostats.measurement.proof import TOLERANCES, measure_relative_difference
from thermostats.measurement.spec import (
    PRECISIONS,
    TYPES,
    WHAT,
    RunSpec,
    build_spec,
    check_device,
    check_set,
    require_device,
)
from thermostats.measurement.spectra import read_config
from thermostats.next_steps import Code, call
from thermostats.tables import store
from thermostats.tables.folders import find_lookup_folder, find_own_folder, start_folder
from thermostats.terminal import is_progress_seen

TOKENS = (1, 2, 3)
"""Three tokens, so that attention has something to weigh, where a run has no prompts."""
Passed = dict[str, NDArray[np.float64]]
"""Name of a place → what left it."""


def check_same(
    model: Any, tokenizer: Any, planned: MeasurementPlan, *, reads_prompts: bool = True
) -> None:
    """Raise UsageError where a model in memory and its written weights, loaded again, give
    different numbers, or where its tokenizer reads a prompt as other tokens.

    Compared are what each block leaves and the logits, of the longest and the shortest prompt of
    the run or a small image, at the model's own precision; of three tokens without `reads_prompts`,
    where texts are the model's own.
    """
    folder = planned.folder
    spec = planned.spec
    entry = lookup(read_config(folder.path, folder.reads))
    before = find_places(model, entry)
    prompts: list[tuple[int, ...]] = [()]
    if entry.reads == "text":
        prompts = _ends(tokenizer, planned) if reads_prompts else [TOKENS]
    first = [_run_pass(before, tokens) for tokens in prompts]
    options: dict[str, Any] = {
        "device_map": spec.device_map,
        "trust_remote_code": spec.trust_remote_code,
    }
    dtype = str(before.dtype).removeprefix("torch.")
    loaded = load(folder, dtype=dtype, device=str(before.device), **options)
    if entry.reads == "text":
        _check_tokens(tokenizer, loaded.tokenizer, planned)
    tolerance = TOLERANCES[before.dtype]
    for tokens, passed in zip(prompts, first, strict=True):
        _check_passed(passed, _run_pass(loaded.decoder, tokens), tolerance, len(tokens))


def _check_passed(first: Passed, second: Passed, tolerance: float, tokens: int) -> None:
    for name, x in second.items():
        off = np.inf
        if first[name].shape == x.shape:
            off = measure_relative_difference([first[name]], x)
        if off > tolerance:
            where = f"{name}, of {tokens} tokens" if tokens else name
            raise UsageError(
                "the model in memory computes something else than its weights do once they are "
                "loaded again",
                where=where,
                got=f"off by {off:.2g}",
                allowed=f"at most {tolerance:g}",
                next_step="undo what replaces its activation, forward method or attributes, or "
                "write it into the "
                "weights or the configuration: rows are those of the weights alone",
            )


def _ends(tokenizer: Any, planned: MeasurementPlan) -> list[tuple[int, ...]]:
    """Tokens of the shortest and of the longest prompt of a run."""
    texts = [str(prompt.text) for prompt in planned.prompts.itertuples()]
    read = sorted((tuple(tokenizer(text)["input_ids"]) for text in texts), key=len)
    if not read or not read[0]:
        return [TOKENS]
    return list(dict.fromkeys([read[0], read[-1]]))


def _check_tokens(given: Any, loaded: Any, planned: MeasurementPlan) -> None:
    for prompt in planned.prompts.itertuples():
        text = str(prompt.text)
        before = list(given(text)["input_ids"])
        after = list(loaded(text)["input_ids"])
        if before != after:
            what = (
                "the tokenizer in memory reads a prompt as other tokens than it does once it is "
                "loaded again"
            )
            step = (
                "save it with save_pretrained, and give AutoTokenizer.from_pretrained of "
                "that folder"
            )
            raise UsageError(
                what,
                where=f"prompt {prompt.prompt_id}",
                got=f"tokens {str(after)[:60]}",
                allowed=str(before)[:60],
                next_step=step,
            )


def find_places(model: Any, entry: Architecture) -> Decoder:
    """The stack that is measured, in a model with whatever heads."""
    inner: nn.Module = model if entry.has_head else getattr(model, "base_model", model)
    try:
        return build_decoder(inner.get_submodule(entry.part) if entry.part else inner, entry)
    except (ThermostatsError, AttributeError) as error:
        what = "the model in memory is not built as its class is"
        step = "save it with save_pretrained, name the folder"
        raise UsageError(what, got=f"{type(model).__name__}: {error}", next_step=step) from error


def _run_pass(places: Decoder, tokens: Sequence[int]) -> Passed:
    left: Passed = {}

    def keep(x: Tensor) -> None:
        left[f"block {len(left) + 1}"] = convert_to_array(x).copy()

    inputs = build_example(places)
    if places.entry.reads == "text":
        inputs = {"input_ids": torch.tensor([tokens], device=places.device)}
    module = places.model if places.entry.has_head else places.base
    with ExitStack() as stack, prepare_model(places.model):
        for block in dict.fromkeys(places.blocks):
            hook_exit(stack, block, keep)
        with run_forward_pass(places.model):
            output = module(**inputs, **turn_cache_off(module))
    if places.entry.has_head:
        left["the logits"] = convert_to_array(output.logits)
    return left


IN_MEMORY = (
    "a hub id, a model's folder, or a transformers model in memory with its tokenizer or image "
    "processor"
)
COMPILED = "_orig_mod."
"""What torch.compile puts before the names of a module's weights."""
LIBRARIES = ("transformers.", "accelerate.", "torch.")
"""Whose hooks leave what a model computes as it is."""
DIGITS = 12
"""Hexadecimal digits of the weights of a model in memory, or of a list of prompts, in its name."""


OTHER_NAMES = {
    "offline": ("download", False),
    "lab": ("heritage", None),
    "model_id": ("name", None),
}
"""What the command line and other libraries call an option, and how it is said here; None: by the
same value."""


@dataclass(frozen=True, kw_only=True)
class MeasureCall:
    """The arguments of a call of `measure` that a refusal writes out."""

    model: Any
    tokenizer: Any
    data: str | Path | None
    prompts: Any
    what: Any
    options: Mapping[str, Any]

    def check(self) -> None:
        """Raise UsageError for an option that there is not, and a prompt where its list is meant,
        with the call."""
        allowed = sorted(TYPES.keys() - {"model"})
        for name, value in self.options.items():
            if name not in allowed:
                error = build_unknown_error("no such option", name, allowed, where="measure")
                meant, stands_for = OTHER_NAMES.get(name, (find_nearest(name, allowed), None))
                instead = {meant: value if stands_for is None else stands_for} if meant else {}
                left = {each: value for each, value in self.options.items() if each in allowed}
                step = f"did you mean {meant}? " if meant else ""
                raise error.replace_next_step(step + self.line(options={**left, **instead}))
        if (
            isinstance(self.prompts, str)
            and " " in self.prompts.strip()
            and not Path(self.prompts).exists()
        ):
            what = "no such prompt set or file"
            allowed_ = "a prompt set, a file, a folder of images, a list of texts"
            step = f"a prompt itself stands in a list: {self.line(prompts=[self.prompts])}"
            raise UsageError(what, got=repr(self.prompts)[:60], allowed=allowed_, next_step=step)
        once = list(dict.fromkeys(self.prompts)) if isinstance(self.prompts, list) else []
        if once and len(once) < len(self.prompts) and all(isinstance(text, str) for text in once):
            got = f"{len(self.prompts)} texts, {len(once)} different"
            what = "one text several times is not several prompts"
            raise UsageError(what, where="prompts", got=got, next_step=self.line(prompts=once))

    def line(self, *, tokenizer: str = "", **changed: Any) -> str:
        """The call with other arguments, as a line to paste; a model in memory is called model."""
        model = str(self.model) if isinstance(self.model, (str, Path)) else Code("model")
        tokenizer = tokenizer or "tokenizer" * (self.tokenizer is not None)
        arguments = {"data": self.data, "prompts": self.prompts, "what": self.what} | changed
        options = arguments.pop("options", self.options)
        standard = {"data": None, "prompts": "core", "what": tuple(WHAT)}
        stated = {}
        for name, value in arguments.items():
            if value != standard[name]:
                stated[name] = value
        in_memory = [Code(tokenizer)] if tokenizer else []
        return call("measure", model, *in_memory, **stated, **options)


def measure(
    model: Any,
    tokenizer: Any = None,
    data: str | Path | None = None,
    *,
    prompts: str | Path | Sequence[str] = "core",
    what: str | Sequence[str] = tuple(WHAT),
    revision: str | Sequence[str] = "main",
    layers: int | Sequence[int] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Measure one model, and return its rows of the table `layers`.

    What was measured before is not measured again. Of a model in memory the weights as they are now
    are written to a temporary folder and loaded again, so that there must be room for them twice;
    it is refused where it computes something else than they do. It is called `name`, or else as its
    configuration says, and its revision is a digest of its weights.

    Parameters
    ----------
    model : str, Path or transformers model
        A hub id or a model's folder, in whose case the data folder may stand second; or a
        transformers model in memory, compiled or spread over devices, with its tokenizer.
    tokenizer : transformers tokenizer
        Of a model in memory; of images its processor.
    data : str or Path
        Folder in which rows are kept; without one they are returned and kept nowhere.
    prompts : str, Path or sequence of str
        A prompt set, a file of prompts, a folder of images, or a list of texts, whose prompt_id are
        p001, p002, ….
    what : str or sequence of str
        Any of weights, gains, outputs, attention.
    revision : str or sequence of str
        One or several branches, tags or commits.
    layers : int or sequence of int
        Numbers of the blocks whose rows are returned, from 1; all are measured.
    **options
        The other fields of `RunSpec`: dtype, device, device_map, token_budget, heritage, name,
        trust_remote_code, download, cache, source.

    Returns
    -------
    DataFrame
        Rows of the table `layers`, with model_id and revision; gains are ratios of norms.

    Raises
    ------
    UsageError
        For wrong arguments.
    ThermostatsError
        Where the model cannot be measured; of a call that is refused nothing is left.

    Examples
    --------
    A tiny model with random weights, and a tokenizer of seven words:

    >>> import tokenizers
    >>> import transformers
    >>> import thermostats
    >>> words = {word: number for number, word in enumerate("? a b c d e f".split())}
    >>> vocabulary = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    >>> vocabulary.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="?")
    >>> transformers.set_seed(1)
    >>> shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 8, "n_positions": 24}
    >>> config = transformers.GPT2Config(**shape, bos_token_id=1, eos_token_id=1)
    >>> model = transformers.GPT2LMHeadModel(config).eval()
    >>> asked = {"prompts": ["a b c d", "b a f"], "what": "gains", "name": "tiny"}
    >>> rows = thermostats.measure(model, tokenizer, **asked)
    >>> rows[rows["position"] == "last"].groupby("layer")["gain_block"].median().round(1).tolist()
    [1.0, 1.0, 1.0]
    """
    if isinstance(model, (str, Path)) and isinstance(tokenizer, (str, Path)) and data is None:
        tokenizer, data = None, tokenizer
    call = MeasureCall(
        model=model, tokenizer=tokenizer, data=data, prompts=prompts, what=what, options=options
    )
    call.check()
    kinds = make_list(what, "what") or []
    if isinstance(what, str):
        kinds = [part.strip() for part in what.split(",")]
    revisions = make_list(revision, "revision") or []
    if not revisions:
        raise UsageError(
            "no revision to measure",
            where="revision",
            got=repr(revision),
            allowed="one or several names",
        )
    wanted = _check_layers(layers)
    with TemporaryDirectory(prefix="thermostats-") as temporary:
        place = Path(temporary)
        data = data if data is not None or _has_folder() else place / "data"
        fields = {**options, "what": tuple(kinds), "prompts": write_prompts(prompts, place)}
        if isinstance(model, (str, Path)):
            if tokenizer is not None:
                what_ = (
                    "a tokenizer is only given with a model in memory; a named model has its own"
                )
                raise UsageError(
                    what_, where="tokenizer", got=repr(tokenizer)[:60], next_step="leave it out"
                )
            specs = [build_spec(str(model), {**fields, "revision": each}) for each in revisions]
        else:
            if revisions != ["main"]:
                what_ = "the revision of a model in memory follows from its weights"
                raise UsageError(
                    what_,
                    where="revision",
                    got=", ".join(revisions),
                    next_step="leave it out; give name",
                )
            plain = unpack_model(model)
            _check_words(call, kinds)
            spec = in_memory_spec(plain, tokenizer, {"dtype": _find_dtype(plain), **fields}, place)
            return _collect_rows([spec], data, wanted, (plain, tokenizer))
        return _collect_rows(specs, data, wanted)


def in_memory_spec(model: Any, tokenizer: Any, fields: Mapping[str, Any], place: Path) -> RunSpec:
    """The spec of a plain model in memory, whose weights as they are now are written to a folder in
    `place`.

    fields: of the spec. Raises UsageError for fields that cannot be, and a model that cannot be
    saved.
    """
    named = {**fields, "name": fields.get("name") or _name_model(model)}
    build_spec("in memory", named)  # refuses before anything is written
    return build_spec(*_save_model(model, tokenizer, place / "model", named))


def _collect_rows(
    specs: Sequence[RunSpec],
    data: str | Path | None,
    wanted: Sequence[int] | None,
    in_memory: tuple[Any, ...] = (),
) -> pd.DataFrame:
    """Rows of `layers` of some specs, measured where they are not yet. in_memory: model and
    tokenizer they are of."""
    find_own_folder(data)
    tables = find_lookup_folder(data)
    for spec in specs:
        check_device(spec.device, spec.device_map)
        require_device(spec.device)
        check_set(spec.prompts, tables)
    try:
        from thermostats.measurement import session  # noqa: PLC0415
        from thermostats.measurement.plan import plan  # noqa: PLC0415
        from thermostats.measurement.session import Bars, ProgressLines  # noqa: PLC0415
    except ImportError as error:
        raise build_install_error(error) from error

    plans = [plan(spec, tables) for spec in specs]
    for planned in plans:
        depth = int(planned.model["n_layers"])
        if beyond := [number for number in wanted or () if number > depth]:
            raise UsageError(
                "the model has no such block",
                where="layers",
                got=str(beyond),
                allowed=f"1 to {depth}",
            )
        if in_memory and any(run.kind != "weights" for run in planned.runs):
            check_same(in_memory[0], in_memory[1], planned)
    measured = []
    display = (
        Bars() if sys.stderr.isatty() else ProgressLines(every=5.0) if is_progress_seen() else None
    )
    with start_folder(data) as folder, display.bars if display else nullcontext():
        for planned in plans:
            session.take_answers(planned, folder)
            if not planned.finished:
                try:
                    outcome = session.measure_plan(
                        planned, folder, display.report if display else None
                    )
                except ThermostatsError as error:
                    if runs_kept := session.list_complete_runs(planned, folder)[1]:
                        error.add_note(runs_kept)
                    raise
                if outcome.differences:
                    warnings.warn(f"{planned.folder.model_id}: {outcome.differences}", stacklevel=3)
            runs = {run.run["run_id"] for run in planned.runs}
            rows = store.load("layers", folder, runs=runs)
            of_plan = rows[rows["run_id"].isin(runs)]
            model = planned.folder
            measured.append(of_plan.assign(model_id=model.model_id, revision=model.revision))
    together = pd.concat(measured, ignore_index=True)
    if wanted is None:
        return together
    of_layers = together["layer"].isin(wanted)
    return together[of_layers].reset_index(drop=True)


def _check_layers(layers: Any) -> list[int] | None:
    """Numbers of blocks; UsageError for what is no whole number from 1."""
    if layers is None:
        return None
    is_one = isinstance(layers, (int, str)) or not hasattr(layers, "__iter__")
    numbers = [layers] if is_one else list(layers)
    wrong = []
    for n in numbers:
        if isinstance(n, (bool, str)) or not hasattr(n, "__index__") or int(n) < 1:
            wrong.append(n)
    if wrong or not numbers:
        raise UsageError(
            "blocks are numbered from 1",
            where="layers",
            got=repr(layers)[:60],
            allowed="whole numbers",
        )
    return [int(number) for number in numbers]


def write_prompts(prompts: Any, place: Path) -> str:
    """Name of a prompt set or path of a file: a list of texts is written to one, called by its
    digest."""
    if isinstance(prompts, (str, Path)):
        return str(prompts)
    texts = make_list(prompts, "prompts") or []
    if not texts or not all(text.strip() for text in texts):
        step = "give a list of texts, or the name of a prompt set: thermostats ls prompts"
        raise UsageError(
            "no prompts, or an empty one", where="prompts", got=repr(prompts)[:60], next_step=step
        )
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    digest = hashlib.sha256(lines.encode()).hexdigest()[:DIGITS]
    path = place / f"prompts-{digest}.jsonl"
    path.write_text(lines, encoding="utf-8")
    return str(path)


def unpack_model(model: Any) -> Any:
    """A model in memory without what torch.compile puts around it; UsageError for what cannot be
    measured."""
    plain = getattr(model, "_orig_mod", model)
    if not all(hasattr(plain, name) for name in ("save_pretrained", "config", "state_dict")):
        inner = (
            "measure(model.module, tokenizer)"
            if hasattr(getattr(plain, "module", None), "config")
            else ""
        )
        got = " ".join(repr(model).split())[:60]
        raise UsageError(
            "not a model that can be measured", got=got, allowed=IN_MEMORY, next_step=inner
        )
    if hasattr(plain, "peft_config"):
        step = "measure(model.merge_and_unload(), tokenizer)"
        raise UsageError(
            "adapters can be measured only after merging", got=type(plain).__name__, next_step=step
        )
    _require_plain_weights(plain)
    return plain


def _require_plain_weights(model: Any) -> None:
    """Raise UsageError where a model in memory computes with more than the weights that it
    saves."""
    for name, module in model.named_modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        if any(not str(getattr(hook, "__module__", "")).startswith(LIBRARIES) for hook in hooks):
            raise UsageError(
                "a model in memory has hooks, and what they do to it would not be measured",
                got=name or type(module).__name__,
                next_step="remove them (handle.remove()): rows are those of the weights alone",
            )
        if hasattr(module, "parametrizations"):
            weights = ", ".join(module.parametrizations)
            raise UsageError(
                "a weight of the model in memory is computed from others",
                got=f"{name}: {weights}",
                next_step="torch.nn.utils.parametrize.remove_parametrizations(module, name)",
            )


def _find_dtype(model: Any) -> str:
    """Precision that a model in memory is measured in: its own, of others the first."""
    precision = str(getattr(model, "dtype", "")).removeprefix("torch.")
    return precision if precision in PRECISIONS else PRECISIONS[0]


def _name_model(model: Any) -> str:
    """What a model in memory is called: as its configuration says, a folder by its name, else its
    class."""
    stated = str(getattr(model.config, "_name_or_path", "") or "")
    folder = Path(stated)
    name = folder.resolve().name if folder.is_dir() else stated
    return name or type(model).__name__


def _check_words(call: MeasureCall, kinds: Sequence[str]) -> None:
    tokenizer = call.tokenizer
    if not hasattr(tokenizer, "save_pretrained") and (
        tokenizer is not None or set(kinds) != {"weights"}
    ):
        stated = str(getattr(call.model.config, "_name_or_path", "") or "")
        its = f"transformers.AutoTokenizer.from_pretrained({stated!r})" if stated else ""
        step = f"if it is that of {stated}" if stated else 'what="weights" reads no prompts'
        line = call.line(tokenizer=its) if its else call.line(what="weights")
        got = "none" if tokenizer is None else repr(tokenizer)[:60]
        what = "a model in memory needs its tokenizer or image processor"
        raise UsageError(what, got=got, next_step=f"{step}: {line}")


def _has_folder() -> bool:
    try:
        find_own_folder(None)
    except UsageError:
        return False
    return True


def _save_model(
    model: Any, tokenizer: Any, folder: Path, fields: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Folder of a model written from memory, and the fields of its spec."""
    with _handle_saving_errors(model):
        weights = {}
        for name, weight in model.state_dict().items():
            weights[name.replace(COMPILED, "")] = weight
        compiled = weights.keys() != model.state_dict().keys()
        model.save_pretrained(folder, state_dict=weights if compiled else None)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return str(folder), {**fields, "revision": f"memory-{digest.hexdigest()[:DIGITS]}"}


@contextmanager
def _handle_saving_errors(model: Any) -> Iterator[None]:
    try:
        yield
    except (
        RuntimeError,
        ValueError,
        TypeError,
        NotImplementedError,
        OSError,
        AttributeError,
    ) as error:
        got = f"{type(model).__name__}: {take_first_line(error, 200)}"
        step = "save it with save_pretrained, and name the folder"
        raise UsageError("the model in memory cannot be saved", got=got, next_step=step) from error
