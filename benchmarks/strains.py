"""What `measure`, `join` and `report` do under strain: many models on Ray, a large one in shards,
two reports at once, kills, full disks and read-only folders.

    python benchmarks/strains.py                  # all parts
    python benchmarks/strains.py kills disks      # some of: ray, shards, reports, kills, disks

What is interrupted or refused has to say so, to lose nothing, and to end as if undisturbed when the
same command is run again. Models are random. `disks` mounts a tmpfs, which needs root. Results go
to results/strains.csv and strains.md; a part that is run again replaces its own lines.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pandas as pd
from results import RESULTS, markdown
from shapes import save_shards, save_small_model

from thermostats.errors import ThermostatsError
from thermostats.measurement.prompts import load_prompts
from thermostats.tables.export import export
from thermostats.tables.runs import OF_THE_PASS
from thermostats.tables.store import CACHE_VARIABLE

ROOT = Path(__file__).parents[1]
ON_RAY, KILLED, ON_DISK = 200, 3, 2
"""Small models of a part."""
CLAIMS = ("C01", "C15", "L01")
CLAIM = CLAIMS[0]
MOMENTS = (0.6, 0.9)
"""When a command is killed, as shares of the time that it takes undisturbed."""
ROOMS = (0.3, 0.8)
"""Sizes of a full disk, as shares of what an undisturbed command writes."""
PAGE = 4096
"""Bytes that a tmpfs takes at least for a file."""
FULL, READ_ONLY = "No space left on device", "Read-only file system"
Line = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    said: str
    seconds: float
    gigabytes: float

    def find_words(self, reason: str = "") -> str:
        """The last line that it printed, where there is one with a reason."""
        lines = [line.strip() for line in self.said.splitlines() if reason in line]
        return lines[-1][:300] if lines else ""


class Command:
    """`thermostats` with some words, as a session of its own, so that what it leaves is found."""

    def __init__(self, place: Path, *words: object, **variables: object) -> None:
        self.log = place / f"log-{monotonic()}"
        named = {name: str(value) for name, value in variables.items()}
        search = {"PYTHONPATH": str(ROOT), CACHE_VARIABLE: str(place / "cache"), **named}
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "thermostats", *map(str, words)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=place,
                env={**os.environ, "HF_HUB_OFFLINE": "1", **search},
                start_new_session=True,
            )
        self.began = monotonic()

    def wait(self) -> Ended:
        """Until it has ended."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        said = self.log.read_text(encoding="utf-8")
        took = monotonic() - self.began
        return Ended(self.process.returncode, said, took, used.ru_maxrss * 1024 / 1e9)

    def count_left(self) -> int:
        """Processes of its session that are there 3 seconds after its end."""
        sleep(3)
        return sum(find_session(int(path.name)) == self.process.pid for path in list_processes())


def list_processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdecimal()]


def find_session(process: int) -> int:
    with suppress(ProcessLookupError):
        return os.getsid(process)
    return 0


def build_models(place: Path, count: int) -> list[Path]:
    """Folders of small random models."""
    texts = list(load_prompts("core")["text"])
    folders = [place / "models" / f"m{number:03d}" for number in range(count)]
    for number, folder in enumerate(folders):
        save_small_model(folder, texts, number)
    return folders


def read_rows(data: Path) -> dict[str, list[str]]:
    """A folder's own rows by table, sorted, without when and for how long a run was measured; none
    where it cannot be exported."""
    frames: dict[str, pd.DataFrame] = {}
    with tempfile.TemporaryDirectory() as out, suppress(ThermostatsError):
        export(Path(out) / "out", data=data)
        frames = {path.stem: pd.read_csv(path, dtype=str) for path in Path(out).glob("*/*.csv")}
    kept = {
        name: frame.drop(columns=[*OF_THE_PASS], errors="ignore") for name, frame in frames.items()
    }
    return {name: sorted(frame.to_csv(index=False).splitlines()) for name, frame in kept.items()}


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes, but those that say something of the machine."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def describe(
    case: str, wanted: str, good: bool, ended: Ended | None = None, note: str = ""
) -> Line:
    """A line of the results."""
    figures = {} if ended is None else {"seconds": ended.seconds, "gigabytes": ended.gigabytes}
    line = {"case": case, "wanted": wanted, "verdict": "reached" if good else "missed", **figures}
    line |= {"note": note, "load": os.getloadavg()[0]}
    print(line, file=sys.stderr, flush=True)
    return line


def describe_refusal(case: str, ended: Ended, again: Ended, *, reason: str, same: bool) -> Line:
    """A command that could not go on, and the same again when it could."""
    good = ended.code == 1 and reason in ended.said and "Traceback" not in ended.said
    wanted = f"exit code 1, {reason!r}; with room the same command ends as if undisturbed"
    note = f"exit code {ended.code}: {ended.find_words(reason)}; again: exit code {again.code}"
    return describe(case, wanted, good and again.code == 0 and same, ended, note)


def measure_on_ray(place: Path) -> Iterator[Line]:
    """Many small models on Ray, and the same by processes of this machine."""
    models = build_models(place, ON_RAY)
    ended, rows = {}, {}
    for engine in ("ray", "local"):
        data, settings = place / engine, ("--set", f"engine={engine}", "--set", "cpus=1")
        words = (*models, "--data", data, "--what", "weights,gains", *settings)
        ended[engine] = Command(place, "measure", *words).wait()
        rows[engine] = read_rows(data)
        count = len(rows[engine].get("models", ["header"])) - 1
        note = f"{count / ended[engine].seconds:.2f} models a second; {count} models in the table"
        good = ended[engine].code == 0 and count == ON_RAY
        yield describe(f"{ON_RAY} models, {engine}", "all measured", good, ended[engine], note)
    same = rows["ray"] == rows["local"]
    yield describe("rows of Ray and of processes here", "equal", same)


SHARDS = (("bfloat16", "weights", "float32"), ("bfloat16", "gains,outputs", "float32"))
"""How the weights are stored, what is measured, and in which precision."""


def measure_shards(place: Path) -> Iterator[Line]:
    """Peak memory of a model of 1.57 billion weights, against its files."""
    texts = list(load_prompts("core")["text"])
    for stored, what, dtype in SHARDS:
        folder = place / stored
        if not folder.is_dir():
            size = save_shards(folder, texts, stored) / 1e9
        data = place / f"{stored}-{what}-{dtype}"
        words = ("--data", data, "--what", what, "--dtype", dtype)
        ended = Command(place, "measure", folder, *words).wait()
        shards = len(list(folder.glob("*.safetensors")))
        case = f"1.57B in {shards} shards of {stored}, {size:.2f} GB: {what} in {dtype}"
        note = f"peak memory is {ended.gigabytes / size:.2f} × the files"
        yield describe(case, "measured", ended.code == 0, ended, note)


def report_at_once(place: Path) -> Iterator[Line]:
    """Two reports begun at the same moment, into two folders and into one."""
    alone = Command(place, "report", *CLAIMS, "--out", "alone").wait()
    expected = read_files(place / "alone")
    yield describe(f"a report of {', '.join(CLAIMS)}", "made", alone.code == 0, alone)
    for case, outs in {"two folders": ("one", "two"), "the same folder": ("both", "both")}.items():
        cache = {CACHE_VARIABLE: place / f"cache of {case}"}
        commands = [Command(place, "report", *CLAIMS, "--out", out, **cache) for out in outs]
        ended = [command.wait() for command in commands]
        same = all(read_files(place / out) == expected for out in outs)
        good = same and not any(each.code for each in ended)
        codes = " and ".join(str(each.code) for each in ended)
        note = f"exit codes {codes}; {len(expected)} files {'equal' if same else 'differ'}"
        wanted = "no error, files equal to those of one alone"
        yield describe(f"two at once into {case}", wanted, good, ended[-1], note)


def kill_measuring(place: Path) -> Iterator[Line]:
    """A measurement killed at several moments, and the same command again."""
    models = build_models(place, KILLED)
    alone = Command(place, "measure", *models, "--data", place / "alone").wait()
    expected = read_rows(place / "alone")
    yield describe(f"{KILLED} models undisturbed", "measured", alone.code == 0, alone)
    for sign in (signal.SIGKILL, signal.SIGTERM):
        for moment in MOMENTS:
            data = place / f"{sign.name}-{moment}"
            command = Command(place, "measure", *models, "--data", data)
            sleep(moment * alone.seconds)
            command.process.send_signal(sign)
            killed = command.wait()
            left = command.count_left()
            again = Command(place, "measure", *models, "--data", data).wait()
            same = read_rows(data) == expected
            good = not left and not again.code and same and "Traceback" not in killed.said
            note = f"exit code {killed.code}, {left} processes left; again: exit code {again.code}"
            wanted = "nothing goes on; the same command ends with equal rows"
            yield describe(f"{sign.name} at {moment:.0%}", wanted, good, again, note)


@contextmanager
def mount_disk(folder: Path, size: int) -> Iterator[None]:
    """A tmpfs of so many bytes on a folder."""
    folder.mkdir()
    options = f"size={max(size, PAGE)}"
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)
        folder.rmdir()


def remount(disk: Path, how: str) -> None:
    subprocess.run(["/bin/mount", "-o", f"remount,{how}", str(disk)], check=True)


def find_room(folder: Path) -> int:
    """Bytes that the files of a folder take on a tmpfs."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // PAGE) * PAGE for size in sizes)


@dataclass(frozen=True)
class Written:
    """A command that writes to a folder, and how what it wrote is compared."""

    name: str
    words: Sequence[object]
    option: str
    read: Callable[[Path], Any]


def fill_disks(place: Path) -> Iterator[Line]:
    """Each command onto a disk that is full before it ends, and onto one that is read-only."""
    if os.geteuid():
        yield describe("disks", "mounted", good=False, note="needs root")
        return
    for command in build_writers(place):
        out = place / f"alone-{command.name}"
        Command(place, command.name, *command.words, command.option, out).wait()
        expected = command.read(out)
        for share in ROOMS:
            yield fill(place, command, int(share * find_room(out)), share, expected)
        yield refuse_writing(place, command, expected)
    yield from read_read_only(place)


def build_writers(place: Path) -> list[Written]:
    """The commands that are tried."""
    models = build_models(place, ON_DISK)
    mine, tables = place / "mine", place / "tables"
    Command(place, "measure", *models, "--data", mine).wait()
    Command(place, "export", tables, "--data", mine).wait()

    return [
        Written("measure", models, "--data", read_rows),
        Written("join", sorted(tables.glob("*.csv")), "--data", read_rows),
        Written("report", [CLAIM], "--out", read_files),
    ]


def fill(place: Path, command: Written, size: int, share: float, expected: Any) -> Line:
    """A command onto a disk of a size, and again once it is large."""
    disk = place / "disk"
    words = (command.name, *command.words, command.option, disk / "out")
    with mount_disk(disk, size):
        ended = Command(place, *words).wait()
        remount(disk, "size=1g")
        again = Command(place, *words).wait()
        same = command.read(disk / "out") == expected
    case = f"{command.name}, disk full at {share:.0%}"
    return describe_refusal(case, ended, again, reason=FULL, same=same)


def refuse_writing(place: Path, command: Written, expected: Any) -> Line:
    """A command onto a disk that is read-only, and again once it is not."""
    disk = place / "disk"
    words = (command.name, *command.words, command.option, disk / "out")
    with mount_disk(disk, 2**30):
        remount(disk, "ro")
        ended = Command(place, *words).wait()
        remount(disk, "rw")
        again = Command(place, *words).wait()
        same = command.read(disk / "out") == expected
    return describe_refusal(f"{command.name}, read-only", ended, again, reason=READ_ONLY, same=same)


def read_read_only(place: Path) -> Iterator[Line]:
    """Read-only models, data and cache do not stop what writes elsewhere."""
    disk, models = place / "disk", place / "models"
    with mount_disk(disk, 2**30):
        subprocess.run(["/bin/cp", "-r", str(models), str(place / "mine"), str(disk)], check=True)
        (disk / "cache").mkdir()
        remount(disk, "ro")
        own = sorted((disk / "models").iterdir())
        cases = {
            "measure models that are read-only": ("measure", *own, "--data", "new"),
            "report of data that are read-only": ("report", CLAIM, "--data", disk / "mine"),
            "list of data that are read-only": ("ls", "models", "--data", disk / "mine"),
        }
        for case, words in cases.items():
            ended = Command(place, *words).wait()
            good = ended.code == 0 and "Traceback" not in ended.said
            yield describe(case, "exit code 0", good, ended, ended.find_words())
        cache = {CACHE_VARIABLE: disk / "cache"}
        ended = Command(place, "report", CLAIM, "--out", "uncached", **cache).wait()
        good = ended.code == 0 and "Traceback" not in ended.said
        yield describe("report, cache read-only", "exit code 0", good, ended, ended.find_words())


PARTS: dict[str, Callable[[Path], Iterator[Line]]] = {
    "ray": measure_on_ray,
    "shards": measure_shards,
    "reports": report_at_once,
    "kills": kill_measuring,
    "disks": fill_disks,
}


def study(part: str) -> None:
    """A part, into the results line by line, with the moment and the commit."""
    git = ["/usr/bin/env", "git", "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False, cwd=ROOT).stdout[:8]
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for line in PARTS[part](Path(place)):
            moment = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
            note = line["note"].replace(f"{place}/", "")
            lines.append({"part": part, **line, "note": note, "measured": moment, "commit": commit})
            write(pd.DataFrame(lines))


def write(table: pd.DataFrame) -> None:
    """results/strains.csv, and strains.md made from it."""
    path = RESULTS / "strains.csv"
    if path.is_file():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["part"].isin(table["part"])], table])
    order = list(PARTS)
    table = table.sort_values("part", key=lambda parts: parts.map(order.index), kind="stable")
    table = table.fillna({"note": ""})
    table.to_csv(path, index=False, float_format="%.4g", lineterminator="\n")
    lines = ["# Under strain", "", HEADING, "", markdown(table), ""]
    (RESULTS / "strains.md").write_text("\n".join(lines), encoding="utf-8")


HEADING = f"""\
Commands of `thermostats` as processes of their own; seconds by the wall clock, gigabytes of highest
resident memory. Small models have two layers and 160,000 random weights and are measured by the 25
prompts of `core`, all quantities but on Ray, where it is weights and gains. Killed commands are
killed at shares of the time that they take undisturbed; full disks hold shares of what an
undisturbed command writes. Rows are equal but for {", ".join(OF_THE_PASS)}.
Made by `python benchmarks/strains.py`."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="some of " + ", ".join(PARTS))
    for name in parser.parse_args().parts or PARTS:
        study(name)
