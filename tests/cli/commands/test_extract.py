"""`edgecore extract`: the parts of a file as files and index.json."""

from __future__ import annotations

import hashlib
import json

import pytest

from edgecore import format as fmt
from edgecore.plugin import BackendInfo, registry


class TestExtract:
    """Files and index.json."""

    @pytest.fixture
    def file(self, pte):
        """A file with names that lead elsewhere, and a weight of three floats."""
        content = fmt.read_pte(pte.read_bytes())
        content.named_data = {"../../evil": fmt.NamedBlob(b"1234"), "": fmt.NamedBlob(b"5678")}
        content.constants = [b"", b"abcdefghijkl"]
        plan = content.program.execution_plan[0]
        info = fmt.ExtraTensorInfo(fully_qualified_name="layer/weight")
        weight = fmt.Tensor(fmt.ScalarType.FLOAT, sizes=[3], dim_order=[0], data_buffer_idx=1, extra_tensor_info=info)
        plan.values.append(fmt.EValue(weight))
        plan.delegates[0].id = "../Qnn"
        plan.delegates[0].compile_specs = [fmt.CompileSpec("soc", b"\x01\x02")]
        pte.write_bytes(fmt.write_pte(content))
        return pte

    def test_extract_writes_every_part_and_an_index(self, edgecore, file, tmp_path):
        result = edgecore("extract", file, "--into", tmp_path / "parts")
        assert result.status == 0, result.err
        assert result.out.endswith("parts: 1 blobs, 2 named_data, 1 constants, index.json\n")
        index = json.loads((tmp_path / "parts" / "index.json").read_text())
        (blob,) = index["blobs"]
        assert blob["backend_id"] == "../Qnn"
        assert blob["compile_specs"] == {"soc": "0102"}
        (constant,) = index["constants"]
        assert (constant["values"], constant["dtype"], constant["shape"]) == (["layer/weight"], "float32", [3])
        contents = {}
        for entry in index["blobs"] + index["named_data"] + index["constants"]:
            data = (tmp_path / "parts" / entry["path"]).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
            contents[entry["path"]] = data
        assert contents == {
            "blobs/0000-_Qnn.bin": b"blob of 16 bytes",
            "named_data/0000.bin": b"5678",
            "named_data/0001-_.._evil.bin": b"1234",
            "constants/0000-layer_weight.bin": b"abcdefghijkl",
        }
        written = {path.relative_to(tmp_path / "parts").as_posix() for path in (tmp_path / "parts").rglob("*.*")}
        assert written == {*contents, "index.json"}

    @pytest.mark.parametrize(
        ("returned", "row", "status"),
        [
            ("return {'inner/name.txt': blob[:4]}", {"unpacked": "blobs/0000-_Qnn"}, 0),
            ("raise FormatError('the blob is damaged')", {"not_unpacked": "the blob is damaged"}, 0),
            ("return {'../name.txt': blob}", None, 1),
        ],
    )
    def test_extract_writes_the_folder_in_a_blob(self, edgecore, file, module, monkeypatch, returned, row, status):
        module(f"from edgecore.errors import FormatError\n\n\ndef unpack(blob, named_data):\n    {returned}\n")
        info = BackendInfo(name="qnn", backend_id="Q", summary="", compiler="", unpack="my_model_file:unpack")
        monkeypatch.setattr(registry, "find", lambda backend_id: info)
        result = edgecore("extract", file, "--into", "parts")
        assert result.status == status, result.err
        if row is None:
            assert "returned the path '../name.txt', which leads out of the folder" in result.err
            return
        (blob,) = json.loads((file.parent / "parts/index.json").read_text())["blobs"]
        assert blob.items() >= row.items()
        if "unpacked" in row:
            assert (file.parent / "parts" / row["unpacked"] / "inner/name.txt").read_bytes() == b"blob"

    def test_extract_writes_beside_the_file_and_into_no_folder_that_exists(self, edgecore, file):
        assert edgecore("extract", file).status == 0
        again = edgecore("extract", file)
        assert again.status == 1
        assert "exists already; remove it, or choose another folder with --into" in again.err

    def test_extract_takes_weights_out_of_a_ptd_file(self, edgecore, ptd, tmp_path):
        assert edgecore("extract", ptd, "--into", tmp_path / "weights").status == 0
        rows = json.loads((tmp_path / "weights" / "index.json").read_text())["data"]
        assert [(row["key"], row["bytes"]) for row in rows] == [("layer.weight", 8), ("packed", 3)]
        assert rows[0]["shape"] == [2, 1]
