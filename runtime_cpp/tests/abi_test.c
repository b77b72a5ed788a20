// Compiles the headers, and the assertions of their layout, as C11.
#include "abi_layout.h"

// Tests EDGECORE_HAS(table, member), which is true if the plugin's struct_size covers the member. One plugin was built
// before `import_state` was added to the struct, the other after.
int edgecore_abi_test_has(void) {
  edgecore_backend table;
  table.header.struct_size = (uint32_t)offsetof(edgecore_backend, import_state);
  if (EDGECORE_HAS(&table, import_state) || !EDGECORE_HAS(&table, export_state)) return 0;
  table.header.struct_size += (uint32_t)sizeof(table.import_state);
  const edgecore_backend *constant = &table;
  return EDGECORE_HAS(constant, import_state) && !EDGECORE_HAS(constant, set_option);
}
