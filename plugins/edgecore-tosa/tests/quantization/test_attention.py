"""Rewrites before quantization."""

import torch

from edgecore_tosa.quantization.attention import decompose


class Blocks(torch.nn.Module):
    """Residual blocks with gates, whose number of paths from the input to the end is 3 to the power of their number."""

    def forward(self, x):
        for _ in range(200):
            y = torch.relu(x)
            x = x + y * torch.sigmoid(y)
        return x


def test_a_deep_network_of_many_paths_is_searched_for_masks_once():
    model = torch.export.export(Blocks().eval(), (torch.randn(2, 3),)).module()
    before = [node.target for node in model.graph.nodes]
    assert [node.target for node in decompose(model).graph.nodes] == before
