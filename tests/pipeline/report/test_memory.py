"""The report's section on memory."""

import json

import torch
from small_models import CatAlongAnInnerDim

import edgecore


def test_the_report_has_the_peak_the_bound_and_a_picture(tmp_path):
    report = edgecore.compile(CatAlongAnInnerDim().eval(), (torch.randn(8, 8),)).report()
    (arena,) = report.memory
    assert arena.size == arena.bound == 1024
    assert "memory of forward, arena 1: 1,024 bytes (lower bound 1,024); 3 tensors, 0 more in" in str(report)
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    content = json.loads(page.partition('id="report">')[2].partition("</script>")[0])
    (drawn,) = content["memory"]
    assert len(drawn["tensors"]) == len(arena.boxes) == 3
    assert (drawn["bytes"], drawn["needed"]) == (1024, 1024)
    assert sorted(tensor[4] for tensor in drawn["tensors"]) == [256, 256, 512]
