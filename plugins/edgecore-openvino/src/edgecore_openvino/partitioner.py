"""Make the partitioner: the option `payload` selects the operator table, and all options become compile specs."""

from __future__ import annotations

from edgecore.plugin import CompileSpec
from edgecore.sdk import Partitioner
from edgecore_openvino.lowering import DEVICE, HALF_WEIGHTS, PAYLOAD, PRECISION
from edgecore_openvino.operators import STATIC_TABLE, TABLE
from edgecore_openvino.options import OpenvinoOptions


def partitioner(options: OpenvinoOptions) -> Partitioner:
    """Create the partitioner for `options`."""
    return (TABLE if options.payload == "portable" else STATIC_TABLE).partitioner(
        "OpenvinoBackend",
        compile_specs=_specs(options),
        operators=options.operators,
        min_partition_size=options.min_operators,
    )


def _specs(options: OpenvinoOptions) -> list[CompileSpec]:
    """Convert the options to compile specs, the key-value pairs that `preprocess` receives for each partition.

    The defaults `streams=1` and `half_weights=False` add no compile spec.
    """
    texts = {
        DEVICE: options.device,
        PAYLOAD: options.payload,
        PRECISION: options.precision,
        "NUM_STREAMS": str(options.streams) if options.streams > 1 else "",
        HALF_WEIGHTS: "yes" if options.half_weights else "",
    }
    return [CompileSpec(key, text.encode()) for key, text in texts.items() if text]
