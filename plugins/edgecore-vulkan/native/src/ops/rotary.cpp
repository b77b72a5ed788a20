// Records the shader dispatches of rotary position embeddings (RoPE). Only edgecore's compiler writes these calls.
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

constexpr size_t kRank = 4;

// Appends the strides of a table of cosines or sines [..., length] along each dim of x to the push constants. The
// stride is 0 where the table has size 1.
void add_strides(const Call &call, const Tensor &table, const Tensor &x, int64_t length, std::vector<uint32_t> *push) {
  if (table.rank() < 1 || table.rank() > x.rank() || table.dtype != x.dtype || table.shape.back() != length) {
    call.damaged("a table of angles does not fit its input");
  }
  const Shape own = table.strides();
  for (size_t i = 0; i < kRank; ++i) {
    const size_t from_end = kRank - i;
    if (from_end > table.rank() || table.size(from_end) == 1) {
      push->push_back(0);
    } else {
      if (table.size(from_end) != x.size(from_end) && from_end != 1)
        call.damaged("a table of angles does not fit its input");
      push->push_back(static_cast<uint32_t>(own[table.rank() - from_end]));
    }
  }
}

// rotate_halves and rotate_pairs: (x, cos, sin, out). `pairs` names the shader's variant. `has_whole_tables` is true if
// the tables of cosines and sines are as long as rows of x, and false if they are half as long.
void rotate(Call &call, const char *pairs, bool has_whole_tables) {
  const Tensor x = call.tensor(0), cosines = call.tensor(1), sines = call.tensor(2);
  if (x.rank() < 1 || x.rank() > kRank || x.shape.back() % 2 != 0) call.damaged("its input has no pairs");
  const Tensor out = call.output(call.last(), x.shape);
  if (!is_float(x.dtype) || out.dtype != x.dtype || x.layout != Layout::kRowMajor || out.layout != Layout::kRowMajor) {
    call.unsupported("its input is not row-major or has integers");
  }
  const int64_t half = x.shape.back() / 2, length = has_whole_tables ? 2 * half : half;
  std::vector<uint32_t> push;
  for (size_t from_end = kRank; from_end > 1; --from_end) push.push_back(static_cast<uint32_t>(x.size(from_end)));
  push.push_back(static_cast<uint32_t>(half));
  push.push_back(static_cast<uint32_t>(x.count() / 2));
  add_strides(call, cosines, x, length, &push);
  add_strides(call, sines, x, length, &push);
  call.dispatch_flat(std::string("rotary_") + name_of(x.dtype) + "_" + pairs, {out}, {x, cosines, sines},
                     std::move(push), x.count() / 2);
}

}  // namespace

void rotate_halves(Call &call) { rotate(call, "half", true); }
void rotate_pairs(Call &call) { rotate(call, "next", false); }

}  // namespace edgecore::vulkan
