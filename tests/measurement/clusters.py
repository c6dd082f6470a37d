"""Specs on every engine, something killed in the middle: a process, a job of submitit, a node of a Ray cluster.

    make clusters

Small models are measured one after the other in this process, then on each engine: `local`, `ray` on a cluster of
several nodes on this machine, `slurm` with submitit's executor of processes. Once every node is at work one is killed
(SIGKILL); all specs must be measured all the same, to the byte as before, with nothing said to be left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import small

from thermostats.measurement.engines import Engine, Job
from thermostats.measurement.execute import execute, open_engine
from thermostats.measurement.session import Outcome
from thermostats.measurement.settings import Settings
from thermostats.measurement.spec import RunSpec
from thermostats.tables import spec_states, store

Kill = Callable[[list[spec_states.State]], None]


@contextmanager
def on_local(data: Path, nodes: int) -> Iterator[tuple[Engine, Kill, int]]:
    """Processes of this machine."""
    del nodes
    yield open_engine(Settings("local", cpus=1), data), _process, 1


@contextmanager
def on_slurm(data: Path, nodes: int) -> Iterator[tuple[Engine, Kill, int]]:
    """Jobs of submitit, which runs them as processes where there is no Slurm."""
    del nodes
    yield open_engine(Settings("slurm", cpus=1), data), _process, 1


@contextmanager
def on_ray(data: Path, nodes: int) -> Iterator[tuple[Engine, Kill, int]]:
    """A cluster of a head without cores and so many nodes of one core each, reached by its address."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        held = [cluster.add_node(num_cpus=1) for _ in range(nodes)]
        engine = open_engine(Settings("ray", address=cluster.address), data)
        yield engine, lambda _: cluster.remove_node(held[-1], allow_graceful=False), nodes
    finally:
        cluster.shutdown()


ENGINES = {"local": on_local, "ray": on_ray, "slurm": on_slurm}


def _process(running: list[spec_states.State]) -> None:
    os.kill(running[0].pid, signal.SIGKILL)


def rows(data: Path) -> dict[str, bytes]:
    """Files of gains; those of runs also hold the time."""
    return {path.name: path.read_bytes() for path in (data / "measured" / "layers").glob("*.csv")}


def killed_once(engine: Engine, kill: Kill, data: Path, at_once: int) -> list[list[spec_states.State]]:
    """Have an engine lose one of those at work, as soon as so many are; what ran then, once it has happened."""
    wait, seen = engine.wait, []

    def watched(seconds: float) -> list[tuple[Job, Outcome]]:
        running = [state for state in spec_states.read(data) if state.state == spec_states.RUNNING]
        if len(running) >= at_once and not seen:
            seen.append(running)
            kill(running)
        return wait(min(seconds, 0.2))

    engine.wait = watched  # type: ignore[method-assign]
    return seen


def run(name: str, asked: list[RunSpec], expected: dict[str, bytes], data: Path, nodes: int) -> dict[str, Any]:
    """One engine: what became of the specs while one of those at work was killed."""
    began = time.monotonic()
    data.mkdir(parents=True)
    with ENGINES[name](data, nodes) as (engine, kill, used):
        seen = killed_once(engine, kill, data, used)
        outcomes = list(execute(asked, data, engine=engine))
    found = rows(data)
    return {
        "engine": name,
        "nodes": used,
        "specs": len(asked),
        "kills": len(seen),
        "measured": sum(outcome.status == "measured" for outcome in outcomes),
        "again": sum(outcome.attempts > 1 for outcome in outcomes),
        "differ": sum(found.get(each) != content for each, content in expected.items()) + len(found.keys() - expected),
        "left": len(spec_states.read(data)),
        "checked": store.check(data)["runs"] >= len(asked),
        "seconds": round(time.monotonic() - began, 1),
        "reasons": sorted({outcome.reason for outcome in outcomes if outcome.reason}),
    }


def main() -> None:
    """Run every engine that is installed and note what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--specs", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("build/clusters.jsonl"))
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "models").mkdir()
        asked = small.specs(folder / "models", given.specs, what=("gains",))
        plain = [outcome.status for outcome in execute(asked, folder / "plain")]
        if plain != ["measured"] * given.specs:
            sys.exit(f"without an engine: {plain}")
        for name in given.engines.split(","):
            line = run(name, asked, rows(folder / "plain"), folder / name, given.nodes)
            print(line, flush=True)
            with given.results.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            if not line["kills"] or line["measured"] != given.specs or line["differ"] or line["left"]:
                sys.exit(f"{name}: nothing was killed, or what came of it is not what it is without an engine")


if __name__ == "__main__":
    main()
