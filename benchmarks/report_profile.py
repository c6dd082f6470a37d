"""Where the time and the memory of a cold report go: per claim, by function of the package, from
samples of the stack.

    python benchmarks/report_profile.py            # every claim; seven minutes
    python benchmarks/report_profile.py C14 N01    # some

Each claim has a process of its own with empty caches.
A hundredth of a second apart, the processor time since the last sample is given to the innermost
function of the package on the stack. Results go to results/report-profile.md; claims that are not
measured keep their lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from report import alone
from results import RESULTS, markdown

from thermostats.claims.study import list_scripts

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 6
PROFILE = """
import collections, json, resource, sys, threading, time
from pathlib import Path
found, main, done = collections.Counter(), threading.main_thread().ident, threading.Event()
def sample():
    last = time.process_time()
    while not done.wait(0.01):
        now, frame, name = time.process_time(), sys._current_frames().get(main), "other"
        while frame is not None:
            file = frame.f_code.co_filename
            if "/thermostats/" in file and "site-packages" not in file or "/analyses/" in file:
                name = f"{Path(file).stem}.{frame.f_code.co_name}"
                break
            frame = frame.f_back
        found[name] += now - last
        last = now
threading.Thread(target=sample, daemon=True).start()
from thermostats.claims.run import run_one
run = run_one(Path(sys.argv[1]), Path(sys.argv[2]))
done.set()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps([run.error, time.process_time(), peak, found]))
"""


def profiled(script: Path) -> dict[str, Any]:
    """Processor seconds and largest memory of one claim, alone and from nothing, and where they
    went."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-c", PROFILE, str(script), str(ROOT / "data")]
        done = subprocess.run(
            command, env=alone(Path(cache)), capture_output=True, text=True, check=True
        )
    error, seconds, peak, shares = json.loads(done.stdout.splitlines()[-1])
    if error:
        raise RuntimeError(error)
    most = Counter(shares).most_common(SHOWN)
    where = ", ".join(f"{name} {spent:.1f}" for name, spent in most if spent >= 0.02 * seconds)
    return {
        "claim": script.name[:3].upper(),
        "cpu seconds": seconds,
        "peak GB": peak,
        "seconds by function": where,
    }


def main(chosen: list[str]) -> None:
    there = list_scripts(ROOT / "analyses")
    rows = []
    for claim in chosen or there:
        rows.append(profiled(there[claim]))
        print(rows[-1], flush=True)
    path = RESULTS / "report-profile.csv"
    table = pd.DataFrame(rows)
    if path.is_file():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["claim"].isin(table["claim"])], table])
    table = table.sort_values("cpu seconds", ascending=False)
    table.to_csv(path, index=False, float_format="%.3g", lineterminator="\n")
    total = (
        f"Together {table['cpu seconds'].sum():.0f} processor seconds; each process also loads "
        f"libraries."
    )
    text = f"# Where a cold report goes\n\n{__doc__.strip()}\n\n{total}\n\n{markdown(table)}\n"
    (RESULTS / "report-profile.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
