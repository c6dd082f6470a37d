"""Options that the verbs of the package and of its studies share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thermostats.errors import UsageError, did_you_mean

NEW = Path("analyses")
"""Folder that a user's own analyses are written to where none is named."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of your own rows, read together with the tables that ship with the package; by default "
        "$THERMOSTATS_DATA, or only those tables.",
    ),
]
Analyses = Annotated[
    Path | None,
    typer.Option("--analyses", help="Folder of your own analyses; by default those that ship with the package."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Use only what is on this machine; download nothing.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")]
Engine = Annotated[str, typer.Option(help="local or ray.")]
Cpus = Annotated[int | None, typer.Option(min=1, help="Threads per model; by default 4, on Ray 1.")]
Address = Annotated[str | None, typer.Option(help="Address of a running Ray cluster, as `ray start` printed it.")]
Gpus = Annotated[int, typer.Option(min=1, help="Number of GPUs over which a model may be spread, on Ray.")]
GpuMemory = Annotated[
    float | None, typer.Option(min=0.0, help="Memory of one GPU of the cluster, in GB; without it, CPUs are used.")
]
Shard = Annotated[
    str, typer.Option(help="Measure only every 8th model from the 2nd on with 2/8: a job array takes a shard a job.")
]
Retries = Annotated[
    int, typer.Option(min=0, help="How often a measurement that fails for external reasons is retried.")
]
DiskBudget = Annotated[
    float | None, typer.Option(min=0.0, help="Disk space for downloaded models, in GB; measured ones are deleted.")
]


def check_file(path: Path, otherwise: str = "check the path") -> None:
    """Raise UsageError if there is no such file, naming the most similar file in its folder, or else `otherwise`."""
    if path.is_file():
        return
    beside = [file.name for file in path.parent.iterdir() if file.is_file()] if path.parent.is_dir() else []
    raise UsageError("no such file", where=path, next_step=did_you_mean(path.name, beside, otherwise))
