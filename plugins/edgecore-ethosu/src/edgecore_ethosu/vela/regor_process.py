"""`python -m edgecore_ethosu.vela.regor_process`: compile a TOSA graph with `ethosu.regor`, Vela's compiler.

The compiler runs in a process of its own, because it crashes on some graphs. The process reads the pickled arguments of
`compile_graph` from standard input, and writes the pickled result to standard output. It imports little, to start fast.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any


def compile_graph(architecture: str, tosa: bytes, system: str, settings: str) -> dict[str, Any] | str | None:
    """Compile a TOSA graph with `ethosu.regor`.

    Args:
        architecture: Name of the NPU's family, such as `EthosU55`.
        tosa: The graph, as a flatbuffer of TOSA.
        system: System configuration, in the syntax of Vela's configuration files.
        settings: Options of the compiler, also in the syntax of Vela's configuration files.

    Returns:
        A dict with the parts of the compiler's result that edgecore needs; the compiler's message if it refuses the
        graph; None if its undocumented interface has changed.
    """
    try:
        from ethosu import regor

        model = regor.compile(architecture, tosa, "TOSA", system, options=settings)
        report = model.perf_report
        return {
            "command_stream": bytes(model.command_stream),
            "weights": bytes(model.read_only.data),
            "scratch_size": model.scratch.size,
            "fast_scratch_size": model.scratch_fast.size,
            "inputs": [_tensor(tensor) for tensor in model.inputs],
            "outputs": [_tensor(tensor) for tensor in model.outputs],
            "cpu_operators": report.cpuOps,
            "npu_operators": report.npuOps,
            "npu_cycles": report.npuCycles,
            "total_cycles": report.totalCycles,
            "multiplications": report.macCount,
            "encoded_weights": report.encodedWeights,
            "constants_peak": report.readOnlyPeakUsage,
            "memories": {
                name: (use.peakUsage, sum(access.bytesRead + access.bytesWritten for access in use.accesses.values()))
                for name, use in report.memories.items()
            },
            "tables": {
                name: (list(table.header), [list(row) for row in table.data])
                for name, table in model.opt_database.tables.items()
            },
        }
    except (RuntimeError, ValueError) as error:
        return str(error)
    except (ImportError, TypeError, AttributeError):
        return None


def _tensor(tensor: Any) -> tuple[tuple[int, ...], int, int, int]:
    return tuple(tensor.shape), tensor.element_size, tensor.address, tensor.region


def main() -> None:
    """Unpickle arguments from stdin, compile their graph, and pickle the result to stdout; send logs to stderr."""
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        pickle.dump(compile_graph(*pickle.load(sys.stdin.buffer)), output)


if __name__ == "__main__":
    main()
