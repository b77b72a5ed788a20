"""The edge dialect: its operators, its dtype rules, its verifier, and functions that edit its graphs in place."""

from edgecore.ir.torchao_messages import drop_torchao_messages

drop_torchao_messages()
