"""How many specs are run, held against what there is; loads neither tables nor torch."""

from __future__ import annotations

from dataclasses import dataclass

from thermostats.errors import UsageError, did_you_mean

ENGINES = ("local", "ray", "slurm")
RETRIES = 2
"""How often what fails by no fault of its own is tried again."""


@dataclass(frozen=True)
class Settings:
    """How to run many specs."""

    name: str = "local"
    cpus: int | None = None
    """Threads that a model is measured with."""
    device: str = "auto"
    spread: bool = False
    """Models are spread over all devices."""
    address: str | None = None
    """Of a Ray cluster that exists."""
    gpu_memory: int | None = None
    """Bytes of one GPU of a cluster; without it models run on CPUs there."""
    gpus: int = 1
    """GPUs that a model may have, where one does not hold it."""
    slurm: tuple[str, ...] = ()
    """Options of sbatch, as name=value."""

    def __post_init__(self) -> None:
        """Raise UsageError for an engine that does not exist, or an option of sbatch without a value."""
        if self.name not in ENGINES:
            raise UsageError(
                "no such engine",
                where="--engine",
                got=self.name,
                allowed=", ".join(ENGINES),
                next_step=did_you_mean(self.name, ENGINES),
            )
        for option in self.slurm:
            if not all(option.partition("=")):
                raise UsageError(
                    "not an option of sbatch",
                    where="--slurm",
                    got=option,
                    allowed="name=value",
                    next_step="for example --slurm partition=gpu",
                )
