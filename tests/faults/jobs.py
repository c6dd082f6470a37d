"""The commands that the harness kills: how each start state is made, and the call that the verb makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conftest import make_store
from start_states import make_news
from workplaces import make_workplace, write_gains

from thermostats.tables.join import join


@dataclass
class Job:
    """A command to be killed; `seconds` and `operations` are those of an uninterrupted run."""

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    built_up: tuple[str, ...] = ()
    """Beginnings of the names of files that have states between first and last."""
    seconds: float = 0.0
    operations: int = 0


def joining() -> Job:
    """`join --replace` of new models, runs and layers into a store that has some of them."""

    def prepare(folder: Path) -> None:
        make_store(folder / "data")
        make_news(folder / "news")

    def run(folder: Path) -> None:
        news = [folder / "news" / f"{name}.csv" for name in ("models", "runs", "layers")]
        join(news, data=folder / "data", replace=True)

    return Job("join", prepare, run)


def reporting() -> Job:
    """`report` of two claims whose rows changed since the last one."""
    from thermostats.reporting import report as engine

    def build(folder: Path) -> None:
        os.environ["THERMOSTATS_CACHE"] = str(folder / "cache")
        places = {name: folder / name for name in ("data", "analyses", "out")}
        if not engine.report(["C01", "C02"], **places, processes=1).ok:
            raise SystemExit("the report failed")

    def prepare(folder: Path) -> None:
        make_workplace(folder, draws=True)
        build(folder)
        write_gains(folder / "data", "meta/small", 0.55)

    return Job("report", prepare, build, built_up=("out/manifest.json",))


def measuring() -> Job:
    """`measure` of a tiny model on three prompts, its clock stopped so that what it records is the same each time."""
    from thermostats.measurement import session
    from thermostats.measurement.execute import execute

    def prepare(folder: Path) -> None:
        import small

        from thermostats.tables import store

        small.save_model(folder / "tiny-gpt2")
        small.save_prompts(folder)
        (folder / "data").mkdir()
        (folder / "data" / "models.csv").write_bytes((store.shipped("data") / "models.csv").read_bytes())

    def run(folder: Path) -> None:
        session.perf_counter = lambda: 0.0
        session.datetime = Stopped
        spec = session.RunSpec(str(folder / "tiny-gpt2"), prompts=str(folder / "three.txt"))
        for outcome in execute([spec], folder / "data"):
            if outcome.status == "failed":
                raise SystemExit(outcome.reason)

    return Job("measure", prepare, run, built_up=("data/.measuring/",))


class Stopped:
    """A clock that always says the same."""

    @staticmethod
    def now(_zone: object) -> Stopped:
        """The only moment there is."""
        return Stopped()

    @staticmethod
    def isoformat(timespec: str) -> str:
        """That moment as text."""
        return f"2026-01-01T00:00:00+00:00 {timespec}"[:25]


JOBS: dict[str, Callable[[], Job]] = {"join": joining, "report": reporting, "measure": measuring}
