"""Runs of many rows: each a Parquet file with a seal, which says that its rows were validated.

The seal is the SHA-256 of the file, its own digits taken for zeros, with the table, the run and the
rules that the rows were held against. Where it does not fit, something else wrote the file, or
under another name or other rules: its rows are then validated whenever they are read, as those of
CSV files are.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thermostats.tables.folders import ARCHIVE
from thermostats.tables.schemas import FLOAT, TABLES, list_dtypes

LARGE = 200_000
"""Rows of a run above which a new file of it is Parquet; up to it, and where there is a CSV file of
so many rows already, it is CSV."""
RUN_FILE = re.compile(r"[0-9a-f]{16}\.(csv|parquet)")
"""What a file is called that holds the rows of one run."""
SEAL = "seal"
RULES = 1
"""It rises when `validate` refuses what it took before, so that sealed rows are held against it
again."""
NONE = "0" * 64
COMPRESSION = "zstd"
FOOTER = 8
"""Bytes at the end of a Parquet file that say how long its footer is, and what it is."""


def is_run_file(path: Path) -> bool:
    """Whether a file is Parquet and holds the rows of one run."""
    return path.suffix == ARCHIVE and RUN_FILE.fullmatch(path.name) is not None


def encode_run(rows: pa.Table, name: str, run_id: str) -> bytes:
    """The file of a run: its rows, which are validated and in the order of their keys, and the
    seal."""
    numbers: list[str] = []
    others: list[str] = []
    for label in rows.column_names:
        is_number = list_dtypes(name)[label] == FLOAT
        (numbers if is_number else others).append(label)
    stream = io.BytesIO()
    with pq.ParquetWriter(
        stream,
        rows.schema.remove_metadata(),
        compression=COMPRESSION,
        use_dictionary=others,
        use_byte_stream_split=numbers,
        store_schema=False,
    ) as writer:
        writer.write_table(rows.replace_schema_metadata())
        writer.add_key_value_metadata({SEAL: NONE})
    content = stream.getbuffer()
    at = _locate_seal(content)
    seal = _hash_content(content, at, name, run_id)
    content[at : at + len(NONE)] = seal.encode()
    return stream.getvalue()


def is_sealed(content: bytes, name: str, run_id: str) -> bool:
    """Whether the content of a file is what `encode_run` made of rows of a run."""
    view = memoryview(content)
    at = _locate_seal(view)
    if at < 0:
        return False
    seal = _hash_content(view, at, name, run_id)
    return content[at : at + len(NONE)] == seal.encode()


def list_filled(file: pq.FileMetaData) -> list[str]:
    """Columns of a file that have a value in some row."""
    filled: dict[str, None] = {}
    for group in map(file.row_group, range(file.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            counted = column.statistics
            if counted is None or counted.null_count < column.num_values:
                filled[column.path_in_schema] = None
    return list(filled)


def _locate_seal(content: memoryview) -> int:
    """Where the digits of a seal are in the footer of a file; -1 where there is none."""
    size = int.from_bytes(content[-FOOTER : -FOOTER // 2], "little")
    start = max(len(content) - FOOTER - size, 0)
    pattern = SEAL.encode() + rb".{1,4}([0-9a-f]{64})"
    found = re.search(pattern, content[start:], re.DOTALL)
    return start + found.start(1) if found else -1


def _hash_content(content: memoryview, at: int, name: str, run_id: str) -> str:
    columns = {}
    for label, column in TABLES[name].columns.items():
        columns[label] = (column.dtype, column.nullable, column.free, column.checks)
    stated = repr((RULES, name, TABLES[name].key, columns, run_id))
    digest = hashlib.sha256(stated.encode())
    for part in (content[:at], NONE.encode(), content[at + len(NONE) :]):
        digest.update(part)
    return digest.hexdigest()
