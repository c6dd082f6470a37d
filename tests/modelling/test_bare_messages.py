"""Whatever a table holds, a public function ends in a result or in a refusal that says what to do
next: no message and no warning of a library reaches its user bare."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from adversarial import SPOILED
from bad_inputs import CASES
from pasted import ReachedSamplerError

import thermostats
from thermostats.errors import ThermostatsError, UnforeseenError, UsageError
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.sampling import Sampled
from thermostats.modelling.specification import (
    build_correlation,
    build_fraction_difference,
    build_smallest_step,
    permute_across_labs,
)
from thermostats.next_steps import wrap_function
from thermostats.public_names import HOME
from thermostats.tables import tree_of_models

Table = pd.DataFrame
GAINS = pd.DataFrame(
    {
        "model_id": [f"m{i}" for i in range(8)],
        "heritage": list("aaabbccc"),
        "gain": [1.05, 0.93, 1.20, 1.11, 0.88, 1.31, 1.02, 0.97],
        "gain_se": [0.02, 0.03, 0.05, 0.01, 0.04, 0.06, 0.02, 0.03],
        "n_layers": [12, 24, 36, 48, 12, 24, 32, 6],
        "source": "mine",
    }
)
TREE = pd.DataFrame(
    {
        "model_id": ["p", "q", "r", "s"],
        "heritage": ["a", "a", "b", "b"],
        "family": ["f", "f", "g", "g"],
        "parent": ["", "p", "p", "q"],
        "year": [2020, 2021, 2022, 2023],
    }
)
PROMPTS = pd.DataFrame(
    {
        "prompt_set": "mine",
        "prompt_id": ["a", "b", "c"],
        "text": ["one", "two", "three"],
        "category": "plain",
    }
)
SPECTRA = pd.DataFrame(
    [
        (model, layer, matrix, "1", 1.0 + layer * number, 2.0)
        for number, model in enumerate("pqr")
        for layer in (1, 2)
        for matrix in ("W_V", "W_O")
    ],
    columns=["model_id", "layer", "matrix", "head", "spectral_norm", "frobenius_norm"],
)
DISTANCES = pd.DataFrame(
    np.abs(np.subtract.outer([0.0, 1.0, 3.0, 7.0], [0.0, 1.0, 3.0, 7.0])),
    index=list("pqrs"),
    columns=list("pqrs"),
)
DIFFERENCES = pd.DataFrame(
    {
        "layer": [1, 2, 3],
        "difference": [0.1, 0.0, 0.2],
        "lower": [0.0, -0.1, 0.1],
        "upper": [0.2, 0.1, 0.3],
        "n_prompts": [5, 5, 5],
    }
)
DIFFERENCES.attrs = {"first": "p", "second": "q", "level": 0.9, "quantity": "gain"}
CHOICES = {"gain": {"as it is": {"outcome": "gain"}}}
RATIOS = CASES["spectral"].good(12, 4)[["model_id", "ratio"]]


def spectral(table: Table) -> Any:
    return thermostats.studies.delia2026.fit_spectral(table, RATIOS, "penultimate_gain", seed=1)


def join_rows(table: Table) -> Any:
    with TemporaryDirectory() as folder:
        joined = thermostats.join(table, table="prompts", data=Path(folder) / "mine", dry_run=True)
        return repr(joined).replace(folder, "")


ASKED: dict[str, tuple[Callable[[Any], Any], Table]] = {
    **{
        f"fit_{name}": (wrap_function(case.fit, name=f"fit_{name}"), case.good(12, 4))
        for name, case in CASES.items()
        if name != "spectral"
    },
    "fit_spectral": (spectral, CASES["spectral"].good(12, 4)),
    "fit_lineage": (
        lambda t: thermostats.fit_lineage(t, thermostats.tree(GAINS), {}, se="gain_se"),
        GAINS,
    ),
    "fit_lineage of its own tree": (
        lambda t: thermostats.fit_lineage(t, thermostats.tree(t), {}),
        GAINS,
    ),
    "tree": (thermostats.tree, TREE),
    "neighbour_joining": (thermostats.neighbour_joining, DISTANCES),
    "spectral_angles": (thermostats.spectral_angles, SPECTRA),
    "profile": (thermostats.profile, DIFFERENCES),
    "join": (join_rows, PROMPTS),
    "specification_curve": (
        lambda t: thermostats.specification_curve(t, CHOICES, build_correlation("n_layers")),
        GAINS,
    ),
}
"""Public functions of a table with a good one."""


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Any, **options: object) -> None:
        raise ReachedSamplerError(self.observed.tolist())

    for kind in (Gaussian, Sampled, Mixture):
        monkeypatch.setattr(kind, "sample", stop)


@contextmanager
def no_warning_of_a_library() -> Iterator[None]:
    """The test fails where a warning is shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        yield
    assert not [f"{each.filename}:{each.lineno}: {each.message}" for each in shown]


def outcome_of(call: Callable[[Any], Any], value: Any) -> tuple[str, str]:
    """What became of a call: a result, outcomes of which a fit would be drawn, or a refusal."""
    with no_warning_of_a_library():
        try:
            return "result", repr(call(value))
        except ReachedSamplerError as reached:
            return "drawn", str(reached)
        except ThermostatsError as error:
            assert not isinstance(error, UnforeseenError), error
            assert error.what and error.next_step, error
            return "refused", ""


@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("name", ASKED)
def test_a_table_ends_in_a_result_or_in_a_refusal_with_a_next_step(name: str, spoiled: str) -> None:
    call, good = ASKED[name]
    outcome_of(call, SPOILED[spoiled](good.copy()))


@pytest.mark.parametrize("name", ASKED)
def test_a_good_table_is_taken(name: str) -> None:
    call, good = ASKED[name]
    assert outcome_of(call, good.copy())[0] in ("drawn", "result")


def test_every_public_function_of_a_table_is_asked() -> None:
    """Functions whose first argument is a table; those of fits are named by their law."""
    named = {name.partition(" ")[0] for name in ASKED}
    functions = {name: getattr(thermostats, name) for name in HOME}
    tables = {
        name
        for name, function in functions.items()
        if inspect.isfunction(function)
        and "pd.DataFrame" in str(next(iter(inspect.signature(function).parameters.values())))
    }
    assert tables - named == {"fit"}  # a model of the user's own, in test_own_model


def invert_nothing(_table: Table) -> Any:
    return np.linalg.inv(np.zeros((2, 2)))


def test_an_unforeseen_error_says_where_and_keeps_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A check that is taken away lets numpy's own error through to the border."""
    monkeypatch.setattr(tree_of_models, "_check_distances", lambda d: (list(d), d.to_numpy()))
    wrong = DISTANCES.astype(object)
    wrong.iloc[0, 1] = wrong.iloc[1, 0] = "much"
    with pytest.raises(UnforeseenError) as raised:
        thermostats.neighbour_joining(wrong)
    error = raised.value
    assert isinstance(error.__cause__, TypeError) and error.__cause__.__traceback__ is not None
    assert error.where.startswith("thermostats/tables/tree_of_models.py:")
    assert error.got.startswith("TypeError: ") and error.allowed
    assert error.next_step == "help(thermostats.neighbour_joining)"


def test_what_a_function_of_the_users_raises_stays_as_it_is() -> None:
    choices = {"gain": {"own": invert_nothing}}
    with pytest.raises(np.linalg.LinAlgError):
        thermostats.specification_curve(
            GAINS.assign(outcome=1.0), choices, build_correlation("n_layers")
        )


COMMAND = """
import sys
from thermostats.cli import app, options
from thermostats.tables import store, tree
store.check = lambda *_: tree._build_tree(None, "equal", ())
sys.argv = ["thermostats", "check"]
app.main()
"""


@pytest.mark.parametrize("whole", [False, True])
def test_a_command_that_fails_says_so_in_a_sentence(whole: bool) -> None:
    environment = {**os.environ, **({"THERMOSTATS_TRACEBACK": "1"} if whole else {})}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == whole
    if not whole:
        assert done.stderr.startswith("thermostats: the command failed where no check had foreseen")
        assert "Next: THERMOSTATS_TRACEBACK=1 thermostats check shows" in done.stderr


class Frame:
    """What other libraries hand out: Arrow's stream, their own length and columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(schema)

    def to_pandas(self) -> Table:
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Lazy:
    """A frame whose rows are still to be computed."""

    columns = ("model_id",)

    def collect(self) -> Table:
        return GAINS


OTHER_LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "polars": lambda table: pytest.importorskip("polars").from_arrow(table),
    "like polars": Frame,
    "arrow": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(),
}
NO_TABLES: dict[str, Any] = {
    "lazy": Lazy(),
    "series": GAINS["gain"],
    "nothing": None,
    "number": 3,
    "numbers": np.ones((3, 3)),
    "texts": ["a", "b"],
    "path": "no.csv",
    "bytes": b"a,b",
}


READ_ONCE = [
    (name, library)
    for name in ASKED
    for library in OTHER_LIBRARIES
    if not (library == "reader" and "own tree" in name)
]
"""All but a function that reads its table twice, which such batches cannot be."""


@pytest.mark.parametrize(("name", "library"), READ_ONCE)
def test_frames_of_other_libraries_are_taken_as_those_of_pandas(name: str, library: str) -> None:
    call, good = ASKED[name]
    other = OTHER_LIBRARIES[library](pa.Table.from_pandas(good, preserve_index=False))
    assert outcome_of(call, other) == outcome_of(call, good.copy())


ESTIMATORS = {
    "correlation": build_correlation("none"),
    "grouped": build_correlation("n_layers", groups="none"),
    "difference": build_fraction_difference("none", "heritage"),
    "units": build_fraction_difference("n_layers", "none"),
    "step": build_smallest_step("none", "heritage"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_column_that_an_estimator_lacks_is_named(name: str) -> None:
    with pytest.raises(UsageError, match="no column none"):
        thermostats.specification_curve(GAINS, CHOICES, ESTIMATORS[name])


def test_a_column_that_a_null_lacks_is_named() -> None:
    null = permute_across_labs("none")
    with pytest.raises(UsageError, match=r"no such column.*got none"):
        thermostats.specification_curve(GAINS, CHOICES, build_correlation("n_layers"), null=null)


UNREADABLE = [(name, what) for name in ASKED for what in NO_TABLES]
UNREADABLE.remove(("tree", "nothing"))  # the tree of the tables' own models


@pytest.mark.parametrize(("name", "what"), UNREADABLE)
def test_what_is_no_table_is_refused(name: str, what: str) -> None:
    call, _ = ASKED[name]
    assert outcome_of(call, NO_TABLES[what])[0] == "refused"
