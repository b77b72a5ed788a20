#include "lib/elementwise.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kGrain = 32768;

struct Plan {
  DenseFn function;
  const Params *params;
  Compute compute;
  ResultKind result;
  Type common;
  int inputs;
  Type types[kMaxOperands];   // dtype of each operand; operand 0 is the output
  bool native[kMaxOperands];  // true if an operand is stored in the compute type, so that it needs no conversion
  bool wraps[kMaxOperands];   // true for an integer operand that may be out of range of the common dtype
};

void store_result(const Plan &plan, char *target, int64_t stride, int64_t n, const void *source) {
  const Type out = plan.types[0];
  if (plan.result == ResultKind::kBool) {
    int64_t wide[kChunk];
    load(Type::kBool, static_cast<const char *>(source), 1, n, wide);
    return store(out, target, stride, n, wide);
  }
  if (out == plan.common || plan.common == storage_of(plan.compute)) {
    return store(plan.compute, out, target, stride, n, source);
  }
  // PyTorch computes in the promoted dtype of the inputs, plan.common; the compute type may be wider. So first round or
  // wrap the result to the promoted dtype (fp16, bf16, a narrow integer), then convert it to the dtype of `out`.
  alignas(64) char narrow[kChunk * 8];
  alignas(64) char wide[kChunk * 8];
  store(plan.compute, plan.common, narrow, item_size(plan.common), n, source);
  load(plan.compute, plan.common, narrow, item_size(plan.common), n, wide);
  store(plan.compute, out, target, stride, n, wide);
}

// Wraps integers to the range of the promoted dtype, as PyTorch does with operands: for uint8, -1 becomes 255.
void wrap(const Plan &plan, int64_t n, char *values) {
  alignas(64) char narrow[kChunk * 8];
  store(plan.compute, plan.common, narrow, item_size(plan.common), n, values);
  load(plan.compute, plan.common, narrow, item_size(plan.common), n, values);
}

void run(const void *context, char *const *data, const int64_t *strides, int64_t n) {
  const Plan &plan = *static_cast<const Plan *>(context);
  const int64_t size = compute_size(plan.compute);
  const int64_t result_size = plan.result == ResultKind::kBool ? 1 : size;
  bool direct[kMaxOperands];
  bool all_direct = true;
  bool in_place = false;
  for (int k = 0; k <= plan.inputs; ++k) {
    direct[k] = plan.native[k] && strides[k] == (k == 0 ? result_size : size);
    all_direct = all_direct && direct[k];
    in_place = in_place || (k > 0 && data[k] == data[0]);
  }
  // If the output is also an input, compute into a buffer: compilers vectorize the loop only for arrays that do not
  // overlap, so the loop and the copy together are several times as fast as a loop in place.
  if (in_place) direct[0] = all_direct = false;
  const void *in[kMaxOperands] = {};
  if (all_direct) {
    for (int k = 0; k < plan.inputs; ++k) in[k] = data[k + 1];
    plan.function(in, data[0], n, *plan.params);
    return;
  }
  alignas(64) char buffers[kMaxOperands][kChunk * 8];
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t m = n - start < kChunk ? n - start : kChunk;
    for (int k = 0; k < plan.inputs; ++k) {
      const int64_t stride = strides[k + 1];
      const char *source = data[k + 1] + start * stride;
      if (direct[k + 1]) {
        in[k] = source;
        continue;
      }
      in[k] = buffers[k + 1];
      if (stride == 0 && start > 0) continue;  // a broadcast value is loaded only once
      load(plan.compute, plan.types[k + 1], source, stride, m, buffers[k + 1]);
      if (plan.wraps[k + 1]) wrap(plan, m, buffers[k + 1]);
    }
    char *target = data[0] + start * strides[0];
    plan.function(in, direct[0] ? target : buffers[0], m, *plan.params);
    if (!direct[0]) store_result(plan, target, strides[0], m, buffers[0]);
  }
}

}  // namespace

int32_t elementwise(Call &call, Tensor out, const Tensor *inputs, int count, Type common, ResultKind result,
                    const Functions &functions, const Params &params) {
  if (call.failed()) return call.status();
  Plan plan;
  plan.compute = compute_of(common);
  plan.function = functions.by_compute[static_cast<int>(plan.compute)];
  if (plan.function == nullptr) {
    return call.fail(EDGECORE_NOT_SUPPORTED, Message() << "not defined for " << common);
  }
  if (result == ResultKind::kSame && !call.check_cast(common, out)) return call.status();
  Operands operands;
  operands.push(out);
  for (int k = 0; k < count; ++k) operands.push(inputs[k]);
  const bool flat = is_flat(operands);
  const Shape shape = flat ? Shape() : broadcast(call, inputs, count);
  if (!(flat ? call.keep_shape(out) : call.resize(out, shape))) return call.status();
  plan.params = &params;
  plan.result = result;
  plan.common = common;
  plan.inputs = count;
  const Type native = storage_of(plan.compute);
  for (int k = 0; k <= count; ++k) {
    plan.types[k] = operands.items[k].type();
    plan.native[k] = plan.types[k] == (k == 0 && result == ResultKind::kBool ? Type::kBool : native);
    plan.wraps[k] = plan.compute == Compute::kInt && k > 0 && plan.types[k] != common && plan.types[k] != Type::kBool &&
                    common != Type::kBool && item_size(plan.types[k]) >= item_size(common);
  }
  const Loop loop = flat ? flat_loop(operands) : make_loop(call, shape, operands);
  for_each_run(call, loop, kGrain, &run, &plan);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
