"""A contender as a process: ``python worker.py NAME FOLDER``, NAME a function of `contenders.py`,
FOLDER a model's.

It answers each line on standard input with one line of JSON: `run` (wall and CPU seconds, and
numbers to compare contenders by), `cold` (the same with the file out of the page cache), `memory`
(bytes above the loaded model), `peak` (bytes of the whole process) or `profile` (what took
longest).
"""

from __future__ import annotations

import cProfile
import ctypes
import gc
import io
import json
import os
import pstats
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import contenders
from contenders import Work


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def memory(work: Work) -> dict[str, Any]:
    """Peaks of resident memory above the loaded model, bytes: of the first pass, and of three after
    it.

    The weights are read once before, because they are mapped from their file and come into memory
    as they are used. The first pass also brings in the libraries' own code and tables; after each,
    freed memory is given back.
    """
    import torch  # noqa: PLC0415

    for weight in [each for each in gc.get_objects() if type(each) is torch.nn.Parameter]:
        weight.detach().reshape(-1)[::512].sum()
    peaks = []
    for _ in range(4):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        resident = _status("VmRSS")
        work()
        peaks.append(_status("VmHWM") - resident)
    return {"first": peaks[0], "later": peaks[1:]}


def timed(work: Work) -> dict[str, Any]:
    """Wall and CPU seconds of one repeat, and what it found."""
    wall, cpu = time.perf_counter(), time.process_time()
    values = work()
    return {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "values": values,
    }


def peak(work: Work) -> dict[str, int]:
    """Highest resident memory of the whole process, bytes: after importing what is needed, and
    after the work."""
    imported = _status("VmHWM")
    return {**timed(work), "imported": imported, "peak": _status("VmHWM")}


def cold(work: Work) -> dict[str, Any]:
    """One repeat, timed, after the system was asked to forget the file."""
    with (Path(sys.argv[2]) / "model.safetensors").open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return timed(work)


def profile(work: Work) -> dict[str, str]:
    """What took longest: operators of torch where there are any, and functions of Python, by their
    own time; in words the shares of the first five.
    """
    text, words = io.StringIO(), ""
    if "torch" in sys.modules:
        from torch.profiler import profile as operators  # noqa: PLC0415

        with operators() as recorded:
            work()
        averages = recorded.key_averages()
        text.write(
            averages.table(sort_by="self_cpu_time_total", row_limit=10, max_name_column_width=36)
        )
        words = _shares({event.key: event.self_cpu_time_total for event in averages})
    profiler = cProfile.Profile()
    profiler.runcall(work)
    functions = pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime")
    functions.print_stats(14)
    seconds = {f"{name} ({file})": times[2] for (file, _, name), times in functions.stats.items()}
    return {"profile": text.getvalue(), "words": words or _shares(seconds)}


def _shares(times: dict[str, float]) -> str:
    total = sum(times.values())
    largest = sorted(times.items(), key=lambda item: -item[1])[:5]
    return (
        "Of the time, " + ", ".join(f"{time / total:.0%} in {name}" for name, time in largest) + "."
    )


def main() -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what contenders print goes to standard error
    work = getattr(contenders, sys.argv[1])(Path(sys.argv[2]))
    commands = {"run": timed, "memory": memory, "profile": profile, "peak": peak, "cold": cold}
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            answer = commands[line.strip()](work)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
