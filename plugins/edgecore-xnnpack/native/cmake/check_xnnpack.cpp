// A test program of the CMake configuration: it compiles and links only with the plugin's cpuinfo.h, and with an
// XNNPACK at least as new as the one for which the plugin is written.
#include <cpuinfo.h>
#include <xnnpack.h>

int main() {
  const xnn_datatype blockwise_int4 = xnn_datatype_qbint4;
  const cpuinfo_uarch ours = cpuinfo_uarch_skylake_x;
  xnn_subgraph_t subgraph = nullptr;
  xnn_runtime_t runtime = nullptr;
  if (xnn_initialize(nullptr) != xnn_status_success || blockwise_int4 == xnn_datatype_invalid) return 1;
  if (ours == cpuinfo_uarch_unknown) return 1;
  xnn_create_subgraph(0, 0, &subgraph);
  xnn_define_binary(subgraph, xnn_binary_add, nullptr, 0, 1, 2, 0);
  return xnn_create_runtime_v4(subgraph, nullptr, nullptr, nullptr, 0, &runtime) == xnn_status_success ? 0 : 1;
}
