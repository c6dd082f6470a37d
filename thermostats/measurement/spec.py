"""What can be asked of a measurement, held against what there is; loads neither tables nor torch."""

from __future__ import annotations

from dataclasses import dataclass

from thermostats.errors import UsageError

WHAT = {
    "weights": ("weights", ("weights", "summaries")),
    "gains": ("residual", ("layers", "summaries")),
    "outputs": ("residual", ("outputs",)),
    "attention": ("attention", ("attention", "transitions")),
}
"""What can be asked for → the run it belongs to and the tables it fills."""
PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class RunSpec:
    """What to measure: a model (hub id or local folder), its revision, precision, prompts and kinds of quantity."""

    model: str
    revision: str = "main"
    dtype: str = "float32"
    prompts: str = "core"
    what: tuple[str, ...] = tuple(WHAT)
    device: str = "auto"
    device_map: str | None = None
    token_budget: int | None = None
    heritage: str = ""
    trust_remote_code: bool = False
    download: bool = True
    cache: str | None = None
    """Folder that a model which the hub's own cache lacks is downloaded to, in the place of that cache."""
    name: str = ""
    """model_id for a local folder; empty: the folder's name."""
    source: str = "thermostats"
    """`source` of its runs: a designed experiment is told apart by it (`tables/vocabulary.py`)."""

    def __post_init__(self) -> None:
        """Raise UsageError for a kind of quantity, a precision or a budget that does not exist."""
        unknown = [name for name in self.what if name not in WHAT]
        if unknown or not self.what:
            raise UsageError("nothing of that name can be measured", got=", ".join(unknown), allowed=", ".join(WHAT))
        if self.dtype not in PRECISIONS:
            raise UsageError("no such precision", where="dtype", got=self.dtype, allowed=", ".join(PRECISIONS))
        if self.token_budget is not None and self.token_budget < 1:
            raise UsageError("a batch holds a token at least", where="token budget", got=str(self.token_budget))
