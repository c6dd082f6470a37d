"""Files written here byte by byte, or by safetensors and torch; headers that lie in every field."""

import json
import sys

import numpy as np
import pytest
from conftest import command
from safetensors.numpy import save_file

from thermostats.errors import DataError
from thermostats.measurement.checkpoint import decode, open_checkpoint, read_safetensors


def write(path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_come_back_as_written(tmp_path, dtype):
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(dtype)
    save_file({"a": x, "b": 2 * x}, tmp_path / "model.safetensors")
    tensors = open_checkpoint(tmp_path)
    assert tensors["b"].shape == (5, 7)
    np.testing.assert_array_equal(decode(tensors["b"].read_raw()), 2 * x)


def test_every_bfloat16_is_decoded_as_torch_does():
    torch = pytest.importorskip("torch")
    words = np.arange(2**16, dtype=np.uint16)
    expected = torch.from_numpy(words.view(np.int16).copy()).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(decode(words).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_of_plain_weights(tmp_path, zipped):
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 3)
    saved = {"x": x, "half": x.to(torch.bfloat16), "mask": x > 0}
    torch.save(saved, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    tensors = open_checkpoint(tmp_path)
    np.testing.assert_array_equal(decode(tensors["x"].read_raw()), x.numpy())
    np.testing.assert_array_equal(decode(tensors["half"].read_raw()), saved["half"].float().numpy())
    with pytest.raises(DataError, match="format that is not measured"):
        tensors["mask"].read_raw()


def test_pickle_of_something_else_is_refused(tmp_path):
    """One that would run code is in `tests/security`."""
    torch = pytest.importorskip("torch")
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="something other than named tensors"):
        open_checkpoint(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle")
    with pytest.raises(DataError, match="cannot be read"):
        open_checkpoint(tmp_path)


def sharded(tmp_path, places):
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places})
    )
    return tmp_path


def test_shards_are_one_checkpoint(tmp_path):
    save_file({"a": np.ones((2, 2), np.float32)}, tmp_path / "one.safetensors")
    save_file({"b": np.zeros(3, np.float32)}, tmp_path / "two.safetensors")
    tensors = open_checkpoint(sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"}))
    assert {name: t.path.name for name, t in tensors.items()} == {
        "a": "one.safetensors",
        "b": "two.safetensors",
    }


@pytest.mark.parametrize(
    "file",
    ["../one.safetensors", "/etc/passwd", "..", ".", "", "sub/one", "a\\b", 3, None, ["x"], "x\0"],
)
def test_index_cannot_leave_its_folder(tmp_path, file):
    with pytest.raises(DataError, match="outside the model's folder"):
        open_checkpoint(sharded(tmp_path, {"a": file}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"weight_map": {}}', "no weight_map"),
        ("[]", "no weight_map"),
        ("{", "not readable"),
        ("é", "not readable"),
        ('{"weight_map": {"a": "one"}}', "a shard of the model is missing"),
        ("[" * 100_000, "not readable"),
    ],
)
def test_index_that_is_damaged(tmp_path, content, message):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(DataError, match=message):
        open_checkpoint(tmp_path)


def test_index_that_names_a_tensor_its_shard_lacks(tmp_path):
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "one.safetensors")
    with pytest.raises(DataError, match="shard lacks 1 tensors"):
        open_checkpoint(sharded(tmp_path, {"a": "one.safetensors", "b": "one.safetensors"}))


def test_folder_without_weights(tmp_path):
    with pytest.raises(DataError, match="no weights in this folder"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("size", [0, 4, 8, 20, -1])
def test_truncated_file(tmp_path, size):
    path = tmp_path / "model.safetensors"
    save_file({"a": np.ones((4, 4), np.float32)}, path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DataError, match="truncated"):
        read_safetensors(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        {},
        {"a": 3},
        {"a": entry(offsets=(8, 32))},
        {"a": entry(), "b": entry()},
    ],
)
def test_header_that_does_not_fit_its_file(tmp_path, header):
    """Lies in one field are told in `tests/fuzz`."""
    with pytest.raises(DataError, match="not a safetensors file"):
        read_safetensors(write(tmp_path / "model.safetensors", header, bytes(24)))


@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8", "U8"])
def test_quantised_weights_are_refused_by_name(tmp_path, dtype):
    tensors = read_safetensors(
        write(tmp_path / "m.safetensors", {"q": entry(dtype, (24,), (0, 24))}, bytes(24))
    )
    with pytest.raises(DataError, match=f"tensor q .* got {dtype}"):
        tensors["q"].read_raw()


def test_pickle_without_torch_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DataError, match=r"only be read with torch.*install thermostats\[measure\]"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("there", ["True", "False"])
def test_what_transformers_raises_is_asked_for_once_it_was_raised(there):
    """Without the package of the hub, as in a wheel without extras, too."""
    code = (
        "import sys\n"
        f"if not {there}: sys.modules['huggingface_hub'] = None\n"
        "from thermostats.measurement.checkpoint import list_load_errors\n"
        f"assert {there} == bool(sys.modules.get('huggingface_hub', {there})), 'imported'\n"
        "assert 'huggingface_hub.errors' not in sys.modules\n"
        "print([kind.__name__ for kind in list_load_errors()])"
    )
    done = command(code=code)
    assert done.returncode == 0, done.stderr
    assert "ArithmeticError" in done.stdout
    assert ("StrictDataclassError" in done.stdout) == (there == "True")
