// Elementwise operators of two or three operands, with broadcasting and type promotion.
#include "lib/elementwise.h"
#include "lib/math.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

enum class Kind {
  kArithmetic,  // operators that compute in the promoted dtype of the operands
  kFloating,    // operators that compute in the promoted dtype, or in float32 if the promoted dtype is an integer
  kCompare,     // operators that compare in the promoted dtype; the result is bool
};

// A number operand as a tensor without dims.
class ScalarTensor {
 public:
  explicit ScalarTensor(Scalar s) : real_(s.d), integer_(s.i), byte_(s.i != 0) {
    tensor_.header = {sizeof tensor_, EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    tensor_.dl.device_type = EDGECORE_DEVICE_CPU;
    if (s.is_floating()) {
      set(Type::kF64, &real_);
    } else if (s.tag == EDGECORE_TAG_BOOL) {
      set(Type::kBool, &byte_);
    } else {
      set(Type::kI64, &integer_);
    }
  }
  ScalarTensor(const ScalarTensor &) = delete;
  ScalarTensor &operator=(const ScalarTensor &) = delete;
  Tensor tensor() { return {&tensor_}; }

 private:
  void set(Type type, void *data) {
    tensor_.scalar_type = static_cast<int32_t>(type);
    tensor_.dl.data = data;
  }
  double real_;
  int64_t integer_;
  uint8_t byte_;
  edgecore_tensor tensor_ = {};
};

void add_operand(Promotion &promotion, Tensor t) {
  Type &type = t.ndim() > 0 ? promotion.dim : promotion.zero;
  type = promote(type, t.type());
}

// Returns true if a tensor of integers contains 0, because integer division by 0 would crash.
bool has_zero(Call &call, Tensor t) {
  bool has_zero = false;
  Operands operands;
  operands.push(t);
  const Loop loop = make_loop(call, t.shape(), operands);
  for_each_run(call, loop, INT64_MAX, [&](char *const *data, const int64_t *strides, int64_t n) {
    int64_t buffer[256];
    for (int64_t start = 0; start < n; start += 256) {
      const int64_t m = n - start < 256 ? n - start : 256;
      load(t.type(), data[0] + start * strides[0], strides[0], m, buffer);
      for (int64_t i = 0; i < m; ++i) has_zero = has_zero || buffer[i] == 0;
    }
  });
  return has_zero;
}

struct Binary {
  const char *op;
  Kind kind;
  Functions functions;
  bool divides = false;  // true for operators that fail if an integer divisor contains 0
};

int32_t run(Call &call, const Binary &binary, Tensor a, Tensor b, const Promotion &promotion, Tensor out,
            const Params &params) {
  if (call.failed()) return call.status();
  Type common = promotion.result();
  if (binary.kind == Kind::kFloating && !is_floating(common)) common = Type::kF32;
  if (binary.divides && !is_floating(common) && a.numel() > 0 && has_zero(call, b)) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "integer division by zero");
  }
  const Tensor inputs[] = {a, b};
  return elementwise(call, out, inputs, 2, common,
                     binary.kind == Kind::kCompare ? ResultKind::kBool : ResultKind::kSame, binary.functions, params);
}

// Returns argument `index`, the alpha of an operator (as in a + alpha * b), as a parameter. If `index` is 0, the
// operator has no alpha, and no parameter is set. If the result is bool, every alpha except 0 counts as 1, as in
// PyTorch.
Params alpha_of(Call &call, uint64_t index, const Promotion &promotion) {
  Params params;
  if (index == 0) return params;
  Scalar alpha = call.scalar(index);
  if (promotion.result() == Type::kBool) alpha = {EDGECORE_TAG_INT, alpha.real() != 0, 0};
  params.set(0, alpha);
  return params;
}

// Runs a kernel whose arguments 0 and 1 are tensors. `alpha_index` is the index of argument alpha; 0: there is none.
int32_t tensor_tensor(const edgecore_call *raw, const Binary &binary, uint64_t out_index, uint64_t alpha_index = 0) {
  Call call(raw, binary.op);
  const Tensor a = call.tensor(0);
  const Tensor b = call.tensor(1);
  const Tensor out = call.tensor(out_index);
  Promotion promotion;
  add_operand(promotion, a);
  add_operand(promotion, b);
  return run(call, binary, a, b, promotion, out, alpha_of(call, alpha_index, promotion));
}

// Runs a kernel whose argument 0 is a tensor and argument 1 a number.
int32_t tensor_scalar(const edgecore_call *raw, const Binary &binary, uint64_t out_index, uint64_t alpha_index = 0) {
  Call call(raw, binary.op);
  const Tensor a = call.tensor(0);
  const Scalar number = call.scalar(1);
  ScalarTensor b(number);
  const Tensor out = call.tensor(out_index);
  Promotion promotion;
  add_operand(promotion, a);
  promotion.number = number.type();
  return run(call, binary, a, b.tensor(), promotion, out, alpha_of(call, alpha_index, promotion));
}

#define EDGECORE_FUNCTOR(Name, expression)                     \
  struct Name {                                                \
    template <class C>                                         \
    static auto of(C a, C b, C, [[maybe_unused]] const C *s) { \
      return expression;                                       \
    }                                                          \
  };

// Truncating division. The integer functions from here on compute a division by -1 as a negation, because INT64_MIN /
// -1 overflows and would crash. A division by 0 returns 0 instead of crashing: has_zero() has refused divisors of 0,
// but in a damaged file the output may overwrite a divisor after that check.
template <class C>
inline C divide_trunc(C a, C b) {
  return trunc_of(a / b);
}
inline int64_t divide_trunc(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
// Returns the remainder as Python's operator % does, with the sign of the divisor: modulo(-7, 3) is 2.
template <class C>
inline C modulo(C a, C b) {
  const C r = fmod_of(a, b);
  return r != C{0} && (r < C{0}) != (b < C{0}) ? r + b : r;
}
inline int64_t modulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// Floor division of floats as in Python and ATen: (a - r) / b with the exact remainder r = fmod(a, b), which agrees
// with modulo(); floor(a / b) would be one too large if a / b rounds up to an integer. (a - r) / b is an integer except
// for rounding errors, so the quotient is rounded to the nearest integer. A quotient of 0 has the sign of a / b.
// Division by 0 returns infinity or NaN, like a / b; if a is infinite, or an operand is NaN, the result is NaN.
template <class C>
inline C divide_floor(C a, C b) {
  if (b == C{0}) return a / b;
  const C r = fmod_of(a, b);
  C q = (a - r) / b;
  if (r != C{0} && (b < C{0}) != (r < C{0})) q -= C{1};
  if (q == C{0}) return static_cast<C>(__builtin_copysign(C{0}, a / b));
  const C floor = floor_of(q);
  return q - floor > C(0.5) ? floor + C{1} : floor;
}
inline int64_t divide_floor(int64_t a, int64_t b) {
  const int64_t q = divide_trunc(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class C>
inline C remainder_trunc(C a, C b) {
  return fmod_of(a, b);
}
inline int64_t remainder_trunc(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
// Returns a^b for floats. A square is computed as a * a, because pow() of libm does not vectorize.
template <class C>
inline C power(C a, C b) {
  return b == C{2} ? a * a : pow_of(a, b);
}
// Returns a^b for integers modulo 2^64, by repeated squaring. As in ATen, a negative exponent gives the integer part of
// the power.
inline int64_t power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
  uint64_t result = 1;
  uint64_t base = static_cast<uint64_t>(a);
  for (uint64_t e = static_cast<uint64_t>(b); e != 0; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return static_cast<int64_t>(result);
}
// Bit shifts of integers. C++ does not define shifts by b < 0 or b > 63 bits. For these, the kernels return what ATen
// returns: 0 for a left shift; for a right shift, 0, or -1 if a is negative.
inline int64_t shift_left(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
inline int64_t shift_right(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }

EDGECORE_FUNCTOR(Add, static_cast<C>(a + b * s[0]))
EDGECORE_FUNCTOR(Sub, static_cast<C>(a - b * s[0]))
EDGECORE_FUNCTOR(Rsub, static_cast<C>(b - a * s[0]))
EDGECORE_FUNCTOR(Mul, static_cast<C>(a *b))
EDGECORE_FUNCTOR(Div, a / b)
EDGECORE_FUNCTOR(DivTrunc, divide_trunc(a, b))
EDGECORE_FUNCTOR(DivFloor, divide_floor(a, b))
EDGECORE_FUNCTOR(Fmod, remainder_trunc(a, b))
EDGECORE_FUNCTOR(Remainder, modulo(a, b))
EDGECORE_FUNCTOR(Pow, power(a, b))
EDGECORE_FUNCTOR(Rpow, power(b, a))
EDGECORE_FUNCTOR(Atan2, atan2_of(a, b))
EDGECORE_FUNCTOR(Maximum, nan_max(a, b))
EDGECORE_FUNCTOR(Minimum, nan_min(a, b))
EDGECORE_FUNCTOR(BitAnd, a &b)
EDGECORE_FUNCTOR(BitOr, a | b)
EDGECORE_FUNCTOR(BitXor, a ^ b)
EDGECORE_FUNCTOR(ShiftLeft, shift_left(a, b))
EDGECORE_FUNCTOR(ShiftRight, shift_right(a, b))
EDGECORE_FUNCTOR(Eq, static_cast<uint8_t>(a == b))
EDGECORE_FUNCTOR(Ne, static_cast<uint8_t>(a != b))
EDGECORE_FUNCTOR(Lt, static_cast<uint8_t>(a < b))
EDGECORE_FUNCTOR(Le, static_cast<uint8_t>(a <= b))
EDGECORE_FUNCTOR(Gt, static_cast<uint8_t>(a > b))
EDGECORE_FUNCTOR(Ge, static_cast<uint8_t>(a >= b))
EDGECORE_FUNCTOR(LogicalAnd, static_cast<uint8_t>(a != C{0} && b != C{0}))
EDGECORE_FUNCTOR(LogicalOr, static_cast<uint8_t>(a != C{0} || b != C{0}))
EDGECORE_FUNCTOR(LogicalXor, static_cast<uint8_t>((a != C{0}) != (b != C{0})))
#undef EDGECORE_FUNCTOR

struct Where {
  template <class C>
  static C of(C condition, C a, C b, const C *) {
    return condition != C{0} ? a : b;
  }
};
struct ClampBetween {
  template <class C>
  static C of(C x, C low, C high, const C *) {
    return nan_min(nan_max(x, low), high);
  }
};

// Returns the functions (one for each compute type) of div with the argument rounding_mode. If the mode is None, also
// sets `kind` to kFloating, because a division of integers then gives floats.
Functions division(Call &call, uint64_t mode_index, Kind *kind) {
  const edgecore_str mode = call.string(mode_index);
  if (mode.size == 5 && __builtin_memcmp(mode.data, "floor", 5) == 0) return all_functions<DivFloor, 2>();
  if (mode.size == 5 && __builtin_memcmp(mode.data, "trunc", 5) == 0) return all_functions<DivTrunc, 2>();
  call.check(call.is_none(mode_index), "rounding_mode must be None, 'trunc' or 'floor'");
  *kind = Kind::kFloating;
  return real_functions<Div, 2>();
}

}  // namespace

// Define the kernel `name` of the operator `op` for two tensors (EDGECORE_TENSORS), or for a tensor and a number
// (EDGECORE_NUMBER). `functions` are the operator's loops, one for each compute type. `out` and `alpha` are the indices
// of these arguments in the call; `alpha` is 0 if the operator has none.
#define EDGECORE_TENSORS(name, op, kind, functions, out, alpha) \
  int32_t name(const edgecore_call *raw) { return tensor_tensor(raw, {op, Kind::kind, functions, false}, out, alpha); }
#define EDGECORE_NUMBER(name, op, kind, functions, out, alpha) \
  int32_t name(const edgecore_call *raw) { return tensor_scalar(raw, {op, Kind::kind, functions, false}, out, alpha); }
// EDGECORE_BOTH defines the kernels of the overloads Tensor_out and Scalar_out of an operator without alpha.
#define EDGECORE_BOTH(name, kind, functions, divides)                                             \
  int32_t name##_tensor_out(const edgecore_call *raw) {                                           \
    return tensor_tensor(raw, {"aten::" #name ".Tensor_out", Kind::kind, functions, divides}, 2); \
  }                                                                                               \
  int32_t name##_scalar_out(const edgecore_call *raw) {                                           \
    return tensor_scalar(raw, {"aten::" #name ".Scalar_out", Kind::kind, functions, divides}, 2); \
  }

EDGECORE_TENSORS(add_out, "aten::add.out", kArithmetic, (all_functions<Add, 2>()), 3, 2)
EDGECORE_NUMBER(add_scalar_out, "aten::add.Scalar_out", kArithmetic, (all_functions<Add, 2>()), 3, 2)
EDGECORE_TENSORS(sub_out, "aten::sub.out", kArithmetic, (all_functions<Sub, 2>()), 3, 2)
EDGECORE_NUMBER(sub_scalar_out, "aten::sub.Scalar_out", kArithmetic, (all_functions<Sub, 2>()), 3, 2)
EDGECORE_NUMBER(rsub_scalar_out, "aten::rsub.Scalar_out", kArithmetic, (all_functions<Rsub, 2>()), 3, 2)
EDGECORE_TENSORS(mul_out, "aten::mul.out", kArithmetic, (all_functions<Mul, 2>()), 2, 0)
EDGECORE_NUMBER(mul_scalar_out, "aten::mul.Scalar_out", kArithmetic, (all_functions<Mul, 2>()), 2, 0)
EDGECORE_TENSORS(div_out, "aten::div.out", kFloating, (real_functions<Div, 2>()), 2, 0)
EDGECORE_NUMBER(div_scalar_out, "aten::div.Scalar_out", kFloating, (real_functions<Div, 2>()), 2, 0)
EDGECORE_TENSORS(atan2_out, "aten::atan2.out", kFloating, (real_functions<Atan2, 2>()), 2, 0)
EDGECORE_TENSORS(maximum_out, "aten::maximum.out", kArithmetic, (all_functions<Maximum, 2>()), 2, 0)
EDGECORE_TENSORS(minimum_out, "aten::minimum.out", kArithmetic, (all_functions<Minimum, 2>()), 2, 0)
EDGECORE_TENSORS(logical_and_out, "aten::logical_and.out", kCompare, (all_functions<LogicalAnd, 2>()), 2, 0)
EDGECORE_TENSORS(logical_or_out, "aten::logical_or.out", kCompare, (all_functions<LogicalOr, 2>()), 2, 0)
EDGECORE_TENSORS(logical_xor_out, "aten::logical_xor.out", kCompare, (all_functions<LogicalXor, 2>()), 2, 0)
EDGECORE_TENSORS(pow_tensor_tensor_out, "aten::pow.Tensor_Tensor_out", kArithmetic, (all_functions<Pow, 2>()), 2, 0)
EDGECORE_NUMBER(pow_tensor_scalar_out, "aten::pow.Tensor_Scalar_out", kArithmetic, (all_functions<Pow, 2>()), 2, 0)
EDGECORE_BOTH(eq, kCompare, (all_functions<Eq, 2>()), false)
EDGECORE_BOTH(ne, kCompare, (all_functions<Ne, 2>()), false)
EDGECORE_BOTH(lt, kCompare, (all_functions<Lt, 2>()), false)
EDGECORE_BOTH(le, kCompare, (all_functions<Le, 2>()), false)
EDGECORE_BOTH(gt, kCompare, (all_functions<Gt, 2>()), false)
EDGECORE_BOTH(ge, kCompare, (all_functions<Ge, 2>()), false)
EDGECORE_BOTH(fmod, kArithmetic, (all_functions<Fmod, 2>()), true)
EDGECORE_BOTH(remainder, kArithmetic, (all_functions<Remainder, 2>()), true)
EDGECORE_BOTH(bitwise_and, kArithmetic, (int_functions<BitAnd, 2>()), false)
EDGECORE_BOTH(bitwise_or, kArithmetic, (int_functions<BitOr, 2>()), false)
EDGECORE_BOTH(bitwise_xor, kArithmetic, (int_functions<BitXor, 2>()), false)
EDGECORE_TENSORS(bitwise_left_shift_tensor_out, "aten::bitwise_left_shift.Tensor_out", kArithmetic,
                 (int_functions<ShiftLeft, 2>()), 2, 0)
EDGECORE_NUMBER(bitwise_left_shift_scalar_out, "aten::bitwise_left_shift.Tensor_Scalar_out", kArithmetic,
                (int_functions<ShiftLeft, 2>()), 2, 0)
EDGECORE_TENSORS(bitwise_right_shift_tensor_out, "aten::bitwise_right_shift.Tensor_out", kArithmetic,
                 (int_functions<ShiftRight, 2>()), 2, 0)
EDGECORE_NUMBER(bitwise_right_shift_scalar_out, "aten::bitwise_right_shift.Tensor_Scalar_out", kArithmetic,
                (int_functions<ShiftRight, 2>()), 2, 0)
#undef EDGECORE_TENSORS
#undef EDGECORE_NUMBER
#undef EDGECORE_BOTH

int32_t floor_divide_out(const edgecore_call *raw) {
  return tensor_tensor(raw, {"aten::floor_divide.out", Kind::kArithmetic, all_functions<DivFloor, 2>(), true}, 2);
}

int32_t div_out_mode(const edgecore_call *raw) {
  Call call(raw, "aten::div.out_mode");
  Kind kind = Kind::kArithmetic;
  const Functions functions = division(call, 2, &kind);
  if (call.failed()) return call.status();
  return tensor_tensor(raw, {"aten::div.out_mode", kind, functions, kind == Kind::kArithmetic}, 3);
}

int32_t div_scalar_mode_out(const edgecore_call *raw) {
  Call call(raw, "aten::div.Scalar_mode_out");
  Kind kind = Kind::kArithmetic;
  const Functions functions = division(call, 2, &kind);
  if (call.failed()) return call.status();
  return tensor_scalar(raw, {"aten::div.Scalar_mode_out", kind, functions, kind == Kind::kArithmetic}, 3);
}

int32_t pow_scalar_out(const edgecore_call *raw) {
  const Binary binary = {"aten::pow.Scalar_out", Kind::kArithmetic, all_functions<Rpow, 2>(), false};
  Call call(raw, binary.op);
  const Scalar base = call.scalar(0);
  ScalarTensor b(base);
  const Tensor exponent = call.tensor(1);
  Promotion promotion;
  add_operand(promotion, exponent);
  promotion.number = base.type();
  return run(call, binary, exponent, b.tensor(), promotion, call.tensor(2), Params());
}

int32_t where_self_out(const edgecore_call *raw) {
  Call call(raw, "aten::where.self_out");
  const Tensor inputs[] = {call.tensor(0), call.tensor(1), call.tensor(2)};
  Promotion promotion;
  add_operand(promotion, inputs[1]);
  add_operand(promotion, inputs[2]);
  return elementwise(call, call.tensor(3), inputs, 3, promotion.result(), ResultKind::kSame, all_functions<Where, 3>(),
                     Params());
}

int32_t clamp_tensor_out(const edgecore_call *raw) {
  Call call(raw, "aten::clamp.Tensor_out");
  Tensor inputs[3] = {call.tensor(0)};
  int count = 1;
  const bool low = !call.is_none(1);
  if (low) inputs[count++] = call.tensor(1);
  if (!call.is_none(2)) inputs[count++] = call.tensor(2);
  if (!call.check(count > 1, "min or max must be given")) return call.status();
  Promotion promotion;
  for (int k = 0; k < count; ++k) add_operand(promotion, inputs[k]);
  const Functions functions = count == 3 ? all_functions<ClampBetween, 3>()
                              : low      ? all_functions<Maximum, 2>()
                                         : all_functions<Minimum, 2>();
  return elementwise(call, call.tensor(3), inputs, count, promotion.result(), ResultKind::kSame, functions, Params());
}

int32_t masked_fill_scalar_out(const edgecore_call *raw) {
  Call call(raw, "aten::masked_fill.Scalar_out");
  const Tensor self = call.tensor(0);
  Scalar number = call.scalar(2);
  // For a bool tensor, PyTorch converts a number such as 0.5 to true.
  if (self.type() == Type::kBool) number = {EDGECORE_TAG_BOOL, number.real() != 0};
  ScalarTensor value(number);
  const Tensor inputs[] = {call.tensor(1), value.tensor(), self};
  call.check(inputs[0].type() == Type::kBool, "the mask must be bool");
  return elementwise(call, call.tensor(3), inputs, 3, self.type(), ResultKind::kSame, all_functions<Where, 3>(),
                     Params());
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
