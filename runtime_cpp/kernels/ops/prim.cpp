// Operators on numbers instead of tensors, such as sym_size or int + int. The kernels write the result to one more
// argument, which follows the arguments of the operator's schema.
#include "lib/call.h"
#include "lib/convert.h"
#include "lib/math.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

int32_t set_int(Call &call, uint64_t i, int64_t value) {
  edgecore_value *result = call.result(i);
  if (call.failed()) return call.status();
  result->tag = EDGECORE_TAG_INT;
  result->as.i = value;
  return EDGECORE_OK;
}

int32_t set_double(Call &call, uint64_t i, double value) {
  edgecore_value *result = call.result(i);
  if (call.failed()) return call.status();
  result->tag = EDGECORE_TAG_DOUBLE;
  result->as.d = value;
  return EDGECORE_OK;
}

int32_t set_bool(Call &call, uint64_t i, bool value) {
  edgecore_value *result = call.result(i);
  if (call.failed()) return call.status();
  result->tag = EDGECORE_TAG_BOOL;
  result->as.b = value;
  return EDGECORE_OK;
}

int32_t set_number(Call &call, uint64_t i, Scalar value) {
  if (value.tag == EDGECORE_TAG_DOUBLE) return set_double(call, i, value.d);
  return value.tag == EDGECORE_TAG_BOOL ? set_bool(call, i, value.i != 0) : set_int(call, i, value.i);
}

// Returns a / b rounded down, for b != 0. A divisor of -1 is handled separately, because INT64_MIN / -1 would crash.
int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Runs an arithmetic operator on two numbers: computes ints(a, b) if both are integers, or reals(a, b) in double if one
// is a float. If `divides` is true, an integer b of 0 is an error.
template <class Ints, class Reals>
int32_t arithmetic(const edgecore_call *raw, const char *op, bool divides, const Ints &ints, const Reals &reals) {
  Call call(raw, op);
  const Scalar a = call.scalar(0);
  const Scalar b = call.scalar(1);
  if (call.failed()) return call.status();
  if (a.is_floating() || b.is_floating()) return set_double(call, 2, reals(a.real(), b.real()));
  if (!call.check(!divides || b.i != 0, "integer division by zero")) return call.status();
  return set_int(call, 2, ints(a.i, b.i));
}

template <class Ints, class Reals>
int32_t comparison(const edgecore_call *raw, const char *op, const Ints &ints, const Reals &reals) {
  Call call(raw, op);
  const Scalar a = call.scalar(0);
  const Scalar b = call.scalar(1);
  if (call.failed()) return call.status();
  return set_bool(call, 2, a.is_floating() || b.is_floating() ? reals(a.real(), b.real()) : ints(a.i, b.i));
}

// Runs an operator that rounds a float to an integer; an integer argument stays the same.
template <class Round>
int32_t rounding(const edgecore_call *raw, const char *op, const Round &round) {
  Call call(raw, op);
  Scalar a = call.scalar(0);
  if (call.failed()) return call.status();
  if (a.is_floating()) a.d = round(a.d);
  return set_int(call, 1, a.integer());
}

}  // namespace

#define EDGECORE_ARITHMETIC(function, name, divides, ints, reals)                          \
  int32_t function(const edgecore_call *raw) {                                             \
    return arithmetic(                                                                     \
        raw, "executorch_prim::" name, divides, [](int64_t a, int64_t b) { return ints; }, \
        [](double a, double b) { return reals; });                                         \
  }
#define EDGECORE_COMPARISON(function, name, sign)                                     \
  int32_t function(const edgecore_call *raw) {                                        \
    return comparison(                                                                \
        raw, "executorch_prim::" name, [](int64_t a, int64_t b) { return a sign b; }, \
        [](double a, double b) { return a sign b; });                                 \
  }
EDGECORE_ARITHMETIC(prim_add, "add.Scalar", false, a + b, a + b)
EDGECORE_ARITHMETIC(prim_sub, "sub.Scalar", false, a - b, a - b)
EDGECORE_ARITHMETIC(prim_mul, "mul.Scalar", false, a *b, a *b)
EDGECORE_ARITHMETIC(prim_floordiv, "floordiv.Scalar", true, floor_quotient(a, b), __builtin_floor(a / b))
EDGECORE_ARITHMETIC(prim_mod, "mod.Scalar", true, a - floor_quotient(a, b) * b, a - __builtin_floor(a / b) * b)
EDGECORE_ARITHMETIC(prim_floordiv_int, "floordiv.int", true, floor_quotient(a, b), __builtin_floor(a / b))
EDGECORE_ARITHMETIC(prim_mod_int, "mod.int", true, a - floor_quotient(a, b) * b, a - __builtin_floor(a / b) * b)
EDGECORE_ARITHMETIC(prim_max, "sym_max.Scalar", false, (a > b ? a : b), nan_max(a, b))
EDGECORE_ARITHMETIC(prim_min, "sym_min.Scalar", false, (a < b ? a : b), nan_min(a, b))
EDGECORE_COMPARISON(prim_eq, "eq.Scalar", ==)
EDGECORE_COMPARISON(prim_ge, "ge.Scalar", >=)
EDGECORE_COMPARISON(prim_gt, "gt.Scalar", >)
EDGECORE_COMPARISON(prim_le, "le.Scalar", <=)
EDGECORE_COMPARISON(prim_lt, "lt.Scalar", <)
#undef EDGECORE_ARITHMETIC
#undef EDGECORE_COMPARISON

int32_t prim_truediv(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::truediv.Scalar");
  const double a = call.real(0);
  const double b = call.real(1);
  return call.failed() ? call.status() : set_double(call, 2, a / b);
}

int32_t prim_neg(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::neg.Scalar");
  const Scalar a = call.scalar(0);
  if (call.failed()) return call.status();
  return a.is_floating() ? set_double(call, 1, -a.d) : set_int(call, 1, -a.i);
}

int32_t prim_ceil(const edgecore_call *raw) {
  return rounding(raw, "executorch_prim::ceil.Scalar", [](double a) { return __builtin_ceil(a); });
}
int32_t prim_round(const edgecore_call *raw) {
  return rounding(raw, "executorch_prim::round.Scalar", [](double a) { return __builtin_rint(a); });
}
int32_t prim_trunc(const edgecore_call *raw) {
  return rounding(raw, "executorch_prim::trunc.Scalar", [](double a) { return __builtin_trunc(a); });
}
int32_t prim_sym_int(const edgecore_call *raw) {
  return rounding(raw, "executorch_prim::sym_int.Scalar", [](double a) { return __builtin_trunc(a); });
}

int32_t prim_sym_float(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::sym_float.Scalar");
  const double a = call.real(0);
  return call.failed() ? call.status() : set_double(call, 1, a);
}

int32_t prim_sym_not(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::sym_not.Scalar");
  const bool a = call.scalar(0).real() != 0;
  return call.failed() ? call.status() : set_bool(call, 1, !a);
}

int32_t prim_sym_ite(const edgecore_call *raw) {
  Call call(raw, "executorch_prim::sym_ite.Scalar");
  const bool condition = call.scalar(0).real() != 0;
  const Scalar chosen = call.scalar(condition ? 1 : 2);
  return call.failed() ? call.status() : set_number(call, 3, chosen);
}

int32_t sym_size_int(const edgecore_call *raw) {
  Call call(raw, "aten::sym_size.int");
  const Tensor self = call.tensor(0);
  const int dim = call.dim(1, self.ndim());
  call.check(self.ndim() > 0, "the tensor has no dims");
  return call.failed() ? call.status() : set_int(call, 2, self.size(dim));
}

int32_t sym_numel(const edgecore_call *raw) {
  Call call(raw, "aten::sym_numel");
  const Tensor self = call.tensor(0);
  return call.failed() ? call.status() : set_int(call, 1, self.numel());
}

int32_t local_scalar_dense(const edgecore_call *raw) {
  Call call(raw, "aten::_local_scalar_dense");
  const Tensor self = call.tensor(0);
  if (!call.check(self.numel() == 1, "the tensor must have one element")) return call.status();
  Scalar value;
  if (is_floating(self.type())) {
    value.tag = EDGECORE_TAG_DOUBLE;
    load(self.type(), self.data(), 0, 1, &value.d);
  } else {
    value.tag = self.type() == Type::kBool ? EDGECORE_TAG_BOOL : EDGECORE_TAG_INT;
    load(self.type(), self.data(), 0, 1, &value.i);
  }
  return set_number(call, 1, value);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
