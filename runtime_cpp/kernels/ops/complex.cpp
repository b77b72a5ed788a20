#include "ops/complex.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

RealView::RealView(Tensor complex) : TensorView(complex.data(), part_of(complex.type()), complex.shape()) {
  for (int d = 0; d < shape.ndim; ++d) strides[d] = 2 * complex.stride(d);
  strides[shape.ndim] = 1;
  shape.push(2);
}

int32_t view_as_real_copy_out(const edgecore_call *raw) {
  Call call(raw, "aten::view_as_real_copy.out");
  const Tensor self = call.complex_tensor(0);
  const Tensor out = call.tensor(1);
  if (call.failed() || !call.check(self.ndim() < kMaxDims, "too many dims") ||
      !call.check(out.type() == part_of(self.type()), "out must have the real dtype of the complex input")) {
    return call.status();
  }
  RealView parts(self);
  if (call.resize(out, parts.shape)) copy_tensor(call, out, parts.tensor());
  return call.status();
}

int32_t conj_physical_out(const edgecore_call *raw) {
  Call call(raw, "aten::_conj_physical.out");
  const Tensor self = call.complex_tensor(0);
  const Tensor out = call.complex_tensor(1);
  if (call.failed() || !call.check(self.ndim() < kMaxDims, "too many dims") ||
      !call.check(out.type() == self.type(), "out must have the input's dtype") || !call.resize(out, self.shape())) {
    return call.status();
  }
  RealView from(self);
  RealView to(out);
  copy_tensor(call, to.tensor(), from.tensor());
  to.narrow(to.shape.ndim - 1, 1, 1);
  Operands imaginary;
  imaginary.push(to.tensor());
  const Type part = part_of(out.type());
  for_each_run(call, make_loop(call, to.shape, imaginary), 65536,
               [&](char *const *data, const int64_t *strides, int64_t n) {
                 for (int64_t i = 0; i < n; ++i) {
                   double value;
                   char *element = data[0] + i * strides[0];
                   load(part, element, 0, 1, &value);
                   value = -value;
                   store(part, element, 0, 1, &value);
                 }
               });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
