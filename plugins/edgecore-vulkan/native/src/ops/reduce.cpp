// Records the shader dispatches of softmax, and of reductions of each row to one number.
#include "ops/operators.h"
#include "ops/push.h"
#include "ops/rows.h"

namespace edgecore::vulkan {

namespace {

void check_floats(const Call &call, const Tensor &x) {
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
}

Rows rows_of_result(const Call &call, const Tensor &x, const std::vector<bool> &is_reduced, const Tensor &out,
                    Dtype dtype) {
  check_floats(call, x);
  if (out.dtype != dtype) call.unsupported("its result is of %s", name_of(out.dtype));
  return rows_over(call, x, is_reduced, out);
}

// Declares the result of a reduction. The call's third argument is keepdim.
Tensor result(const Call &call, const Tensor &x, const std::vector<bool> &is_reduced) {
  const bool keeps = call.integer(2) != 0;
  Shape shape;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!is_reduced[i]) {
      shape.push_back(x.shape[i]);
    } else if (keeps) {
      shape.push_back(1);
    }
  }
  return call.output(call.last(), shape);
}

// sum, mean, amax and amin: (input, dims, keepdim, ...). Without dims, all dims are reduced.
void reduce_dims(Call &call, const char *operation) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> dims = call.is_none(1) ? std::vector<int64_t>() : call.integers(1);
  const std::vector<bool> is_reduced =
      dims.empty() ? std::vector<bool>(x.rank(), true) : named_dims(call, dims, x.rank());
  const Tensor out = result(call, x, is_reduced);
  const Rows rows = rows_of_result(call, x, is_reduced, out, x.dtype);
  const bool is_sum = operation == std::string_view("sum");
  if (!is_sum && rows.terms == 0) call.damaged("it reduces a dim without elements");
  const double factor = call.name() == "aten.mean.dim" ? 1 / static_cast<double>(rows.terms) : 1;
  dispatch_rows(call, "reduce", operation, {out}, {x}, rows, vectors_of(rows, true, true), {bits_of(factor)});
}

// argmax and argmin: (input, dim, keepdim).
void reduce_to_index(Call &call, const char *operation) {
  const Tensor x = call.tensor(0);
  const std::vector<bool> is_reduced = named_dims(call, {call.integer(1)}, x.rank());
  const Tensor out = result(call, x, is_reduced);
  const Rows rows = rows_of_result(call, x, is_reduced, out, Dtype::kInt32);
  if (rows.terms == 0) call.damaged("it reduces a dim without elements");
  dispatch_rows(call, "reduce", operation, {out}, {x}, rows, RowVectors::kNone, {bits_of(1)});
}

void softmax_of(Call &call, const char *operation) {
  const Tensor x = call.tensor(0);
  check_floats(call, x);
  std::vector<bool> is_reduced(x.rank());
  is_reduced[call.dim(1, x.rank())] = true;
  const Tensor out = call.output(call.last(), x.shape);
  if (out.dtype != x.dtype) call.unsupported("its result is of %s", name_of(out.dtype));
  const Tensor source = in_form(call, x, out.dtype, out.layout);
  const Rows rows = rows_over(call, source, is_reduced, out);
  dispatch_rows(call, "softmax", operation, {out}, {source}, rows, vectors_of(rows, true, true));
}

}  // namespace

void sum(Call &call) { reduce_dims(call, "sum"); }
void amax(Call &call) { reduce_dims(call, "amax"); }
void amin(Call &call) { reduce_dims(call, "amin"); }
void argmax(Call &call) { reduce_to_index(call, "argmax"); }
void argmin(Call &call) { reduce_to_index(call, "argmin"); }
void softmax(Call &call) { softmax_of(call, "softmax"); }
void log_softmax(Call &call) { softmax_of(call, "log"); }

}  // namespace edgecore::vulkan
