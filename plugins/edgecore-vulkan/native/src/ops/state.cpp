// Records the shader dispatches of calls that read or write the mutable buffers that a session keeps on the device.
// Only edgecore's compiler writes such calls.
#include "ops/operators.h"

namespace edgecore::vulkan {

// edgecore.state(name, initial, out): makes `out` the buffer with this name.
void state(Call &call) { call.bind_state(); }

// edgecore.store(state, value, out): copies `value` into the buffer; `out` is the buffer afterwards.
void store(Call &call) {
  const Tensor target = call.tensor(0), value = call.tensor(1);
  if (!call.is_state(0)) call.damaged("its first argument is no state");
  if (value.shape != target.shape || value.dtype != target.dtype) call.damaged("its value does not fit the state");
  call.copy(value, target);
  call.share(call.last(), target);
}

// edgecore.update_rows(state, positions, rows, dim, out): writes `rows` at `positions` of `dim`; `out` is the buffer.
void update_rows(Call &call) {
  const Tensor target = call.tensor(0), positions = call.tensor(1), rows = call.tensor(2);
  if (!call.is_state(0)) call.damaged("its first argument is no state");
  const size_t dim = call.dim(3, target.rank());
  Shape shape = target.shape;
  shape[dim] = positions.count();
  if (positions.dtype != Dtype::kInt32 || positions.rank() != 1 || rows.shape != shape || rows.dtype != target.dtype ||
      rows.layout != Layout::kRowMajor) {
    call.damaged("its positions or rows do not fit the state");
  }
  int64_t inner = 1;
  for (size_t i = dim + 1; i < target.rank(); ++i) inner *= target.shape[i];
  call.dispatch_flat(std::string("update_rows_") + name_of(target.dtype), {target}, {rows, positions},
                     {static_cast<uint32_t>(target.shape[dim]), static_cast<uint32_t>(positions.count()),
                      static_cast<uint32_t>(inner), static_cast<uint32_t>(rows.count())},
                     rows.count());
  call.share(call.last(), target);
}

}  // namespace edgecore::vulkan
