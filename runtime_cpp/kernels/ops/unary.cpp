// Elementwise operators of one tensor. Each operator has a functor (the scalar function), and one macro that defines
// its kernel.
#if defined(EDGECORE_EIGEN)
#include <Eigen/Core>
#endif

#include "lib/elementwise.h"
#include "lib/math.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

enum class Kind {
  kFloating,   // operators that compute in the input's dtype, or in float32 if the input's dtype is an integer
  kSame,       // operators that compute in the input's dtype
  kPredicate,  // operators whose result is bool
};

template <class F>
int32_t unary(const edgecore_call *raw, const char *op, Kind kind, const Functions &functions, F read_params,
              uint64_t out_index) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(out_index);
  Params params;
  read_params(call, params);
  if (call.failed()) return call.status();
  const bool promoted = kind == Kind::kFloating && !is_floating(self.type());
  const Type common = promoted ? Type::kF32 : self.type();
  return elementwise(call, out, &self, 1, common, kind == Kind::kPredicate ? ResultKind::kBool : ResultKind::kSame,
                     functions, params);
}

// Computes exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), for x <= 0: then t is in [-1, 0], so no precision is lost
// and the divisor is not 0. -infinity gives -1; NaN stays NaN. Unlike a call of libm's expm1(), this function
// vectorizes.
template <class C>
inline C expm1_of_negative(C x) {
  const C t = tanh_of(x * C(0.5));
  return C{2} * t / (C{1} - t);
}

// Computes log(x / (1 - x)), with x clamped to [eps, 1 - eps]. eps is s[0]; if it is negative, x is not clamped.
template <class C>
inline C logit_of(C x, const C *s) {
  const C low = x < s[0] ? s[0] : x;
  const C clamped = low > C{1} - s[0] ? C{1} - s[0] : low;
  const C y = s[0] < C{0} ? x : clamped;
  return log_of(y / (C{1} - y));
}

#if defined(EDGECORE_EIGEN)
// Eigen's sine and cosine of floats are vectorized, with an exact range reduction for large arguments.
void sin_floats(const void *const *in, void *out, int64_t n, const Params &) {
  using Array = Eigen::Array<float, Eigen::Dynamic, 1>;
  Eigen::Map<Array>(static_cast<float *>(out), n) = Eigen::Map<const Array>(static_cast<const float *>(in[0]), n).sin();
}
void cos_floats(const void *const *in, void *out, int64_t n, const Params &) {
  using Array = Eigen::Array<float, Eigen::Dynamic, 1>;
  Eigen::Map<Array>(static_cast<float *>(out), n) = Eigen::Map<const Array>(static_cast<const float *>(in[0]), n).cos();
}
#else
void sin_floats(const void *const *in, void *out, int64_t n, const Params &) {
  for (int64_t i = 0; i < n; ++i) static_cast<float *>(out)[i] = __builtin_sinf(static_cast<const float *>(in[0])[i]);
}
void cos_floats(const void *const *in, void *out, int64_t n, const Params &) {
  for (int64_t i = 0; i < n; ++i) static_cast<float *>(out)[i] = __builtin_cosf(static_cast<const float *>(in[0])[i]);
}
#endif

constexpr auto kNoParams = [](Call &, Params &) {};

// EDGECORE_FUNCTOR defines a functor of x with the parameters s[0..2].
#define EDGECORE_FUNCTOR(Name, expression)                   \
  struct Name {                                              \
    template <class C>                                       \
    static auto of(C x, C, C, [[maybe_unused]] const C *s) { \
      return expression;                                     \
    }                                                        \
  };

EDGECORE_FUNCTOR(Acos, acos_of(x))
EDGECORE_FUNCTOR(Acosh, acosh_of(x))
EDGECORE_FUNCTOR(Asin, asin_of(x))
EDGECORE_FUNCTOR(Asinh, asinh_of(x))
EDGECORE_FUNCTOR(Atan, atan_of(x))
EDGECORE_FUNCTOR(Atanh, atanh_of(x))
EDGECORE_FUNCTOR(Cosh, cosh_of(x))
EDGECORE_FUNCTOR(Erf, erf_of(x))
EDGECORE_FUNCTOR(Exp, exp_of(x))
EDGECORE_FUNCTOR(Expm1, expm1_of(x))
EDGECORE_FUNCTOR(Log, log_of(x))
EDGECORE_FUNCTOR(Log10, log10_of(x))
EDGECORE_FUNCTOR(Log1p, log1p_of(x))
EDGECORE_FUNCTOR(Log2, log2_of(x))
EDGECORE_FUNCTOR(Reciprocal, C{1} / x)
EDGECORE_FUNCTOR(Rsqrt, C{1} / sqrt_of(x))
EDGECORE_FUNCTOR(Sigmoid, C{1} / (C{1} + exp_of(-x)))
EDGECORE_FUNCTOR(Sinh, sinh_of(x))
EDGECORE_FUNCTOR(Sqrt, sqrt_of(x))
EDGECORE_FUNCTOR(Tan, tan_of(x))
EDGECORE_FUNCTOR(Tanh, tanh_of(x))

EDGECORE_FUNCTOR(Ceil, ceil_of(x))
EDGECORE_FUNCTOR(Floor, floor_of(x))
EDGECORE_FUNCTOR(Round, rint_of(x))
EDGECORE_FUNCTOR(Trunc, trunc_of(x))
EDGECORE_FUNCTOR(Identity, x)
// Abs adds 0, because x + 0 turns -0 into 0; NaN stays NaN.
EDGECORE_FUNCTOR(Abs, static_cast<C>(x < C{0} ? -x : x + C{0}))
EDGECORE_FUNCTOR(Neg, static_cast<C>(-x))
EDGECORE_FUNCTOR(Relu, x < C{0} ? C{0} : x)
EDGECORE_FUNCTOR(Sign, static_cast<C>((x > C{0}) - (x < C{0})))
EDGECORE_FUNCTOR(BitwiseNot, ~x)

// IsInf: x - x is NaN for infinity and NaN, and 0 for all other numbers, so only infinity passes both comparisons.
EDGECORE_FUNCTOR(IsInf, static_cast<uint8_t>(x - x != C{0} && x == x))
EDGECORE_FUNCTOR(IsNan, static_cast<uint8_t>(x != x))
EDGECORE_FUNCTOR(LogicalNot, static_cast<uint8_t>(x == C{0}))

EDGECORE_FUNCTOR(LeakyRelu, x > C{0} ? x : x * s[0])
// Elu: s is {alpha * scale, scale, input_scale}. expm1_of_negative() is valid only for x <= 0 and NaN; for other x its
// result is computed, but not selected.
EDGECORE_FUNCTOR(Elu, x > C{0} ? x * s[1] : s[0] * expm1_of_negative(x * s[2]))
EDGECORE_FUNCTOR(Clamp, (x < s[0] ? s[0] : x) > s[1] ? s[1] : (x < s[0] ? s[0] : x))
EDGECORE_FUNCTOR(ClampMin, x < s[0] ? s[0] : x)
EDGECORE_FUNCTOR(ClampMax, x > s[1] ? s[1] : x)
EDGECORE_FUNCTOR(ClampNan, x + s[0] + s[1])  // used if a limit is NaN: all results are NaN
EDGECORE_FUNCTOR(GeluErf, C(0.5) * x * (C{1} + erf_of(x * C(0.70710678118654752440))))
// GeluTanh approximates GELU as in its paper (arXiv 1606.08415): x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
EDGECORE_FUNCTOR(GeluTanh, C(0.5) * x * (C{1} + tanh_of(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x))))
EDGECORE_FUNCTOR(Logit, logit_of(x, s))

EDGECORE_FUNCTOR(SinDouble, __builtin_sin(x))
EDGECORE_FUNCTOR(CosDouble, __builtin_cos(x))
#undef EDGECORE_FUNCTOR

constexpr Functions kSin = {{&sin_floats, &dense_loop<SinDouble, double, 1>, nullptr}};
constexpr Functions kCos = {{&cos_floats, &dense_loop<CosDouble, double, 1>, nullptr}};

// Returns the functions of an operator that rounds (ceil, floor, ...), one for each compute type. The function for
// integers only copies.
template <class F>
constexpr Functions rounding() {
  return {{&dense_loop<F, float, 1>, &dense_loop<F, double, 1>, &dense_loop<Identity, int64_t, 1>}};
}

}  // namespace

#define EDGECORE_UNARY(name, kind, functions)                                      \
  int32_t name##_out(const edgecore_call *raw) {                                   \
    return unary(raw, "aten::" #name ".out", Kind::kind, functions, kNoParams, 1); \
  }
#define EDGECORE_FLOATING(name, Functor) EDGECORE_UNARY(name, kFloating, (real_functions<Functor, 1>()))

EDGECORE_FLOATING(acos, Acos)
EDGECORE_FLOATING(acosh, Acosh)
EDGECORE_FLOATING(asin, Asin)
EDGECORE_FLOATING(asinh, Asinh)
EDGECORE_FLOATING(atan, Atan)
EDGECORE_FLOATING(atanh, Atanh)
EDGECORE_UNARY(cos, kFloating, kCos)
EDGECORE_FLOATING(cosh, Cosh)
EDGECORE_FLOATING(erf, Erf)
EDGECORE_FLOATING(exp, Exp)
EDGECORE_FLOATING(expm1, Expm1)
EDGECORE_FLOATING(log, Log)
EDGECORE_FLOATING(log10, Log10)
EDGECORE_FLOATING(log1p, Log1p)
EDGECORE_FLOATING(log2, Log2)
EDGECORE_FLOATING(reciprocal, Reciprocal)
EDGECORE_FLOATING(rsqrt, Rsqrt)
EDGECORE_FLOATING(sigmoid, Sigmoid)
EDGECORE_UNARY(sin, kFloating, kSin)
EDGECORE_FLOATING(sinh, Sinh)
EDGECORE_FLOATING(sqrt, Sqrt)
EDGECORE_FLOATING(tan, Tan)
EDGECORE_FLOATING(tanh, Tanh)
EDGECORE_UNARY(ceil, kSame, rounding<Ceil>())
EDGECORE_UNARY(floor, kSame, rounding<Floor>())
EDGECORE_UNARY(round, kSame, rounding<Round>())
EDGECORE_UNARY(trunc, kSame, rounding<Trunc>())
EDGECORE_UNARY(abs, kSame, (all_functions<Abs, 1>()))
EDGECORE_UNARY(neg, kSame, (all_functions<Neg, 1>()))
EDGECORE_UNARY(relu, kSame, (all_functions<Relu, 1>()))
EDGECORE_UNARY(sign, kSame, (all_functions<Sign, 1>()))
EDGECORE_UNARY(isinf, kPredicate, (all_functions<IsInf, 1>()))
EDGECORE_UNARY(isnan, kPredicate, (all_functions<IsNan, 1>()))
EDGECORE_UNARY(logical_not, kPredicate, (all_functions<LogicalNot, 1>()))
#undef EDGECORE_FLOATING
#undef EDGECORE_UNARY

int32_t bitwise_not_out(const edgecore_call *raw) {
  Call call(raw, "aten::bitwise_not.out");
  // for bool use a logical not, because the bitwise ~1 is -2, which is true
  const bool boolean = call.tensor(0).type() == Type::kBool;
  const Functions functions = boolean ? int_functions<LogicalNot, 1>() : int_functions<BitwiseNot, 1>();
  return unary(raw, "aten::bitwise_not.out", boolean ? Kind::kPredicate : Kind::kSame, functions, kNoParams, 1);
}

int32_t leaky_relu_out(const edgecore_call *raw) {
  return unary(
      raw, "aten::leaky_relu.out", Kind::kSame, real_functions<LeakyRelu, 1>(),
      [](Call &call, Params &params) { params.set(0, call.scalar(1)); }, 2);
}

int32_t elu_out(const edgecore_call *raw) {
  return unary(
      raw, "aten::elu.out", Kind::kSame, real_functions<Elu, 1>(),
      [](Call &call, Params &params) {
        Scalar alpha_scale;
        alpha_scale.tag = EDGECORE_TAG_DOUBLE;
        alpha_scale.d = call.real(1) * call.real(2);
        params.set(0, alpha_scale);
        params.set(1, call.scalar(2));
        params.set(2, call.scalar(3));
      },
      4);
}

int32_t hardtanh_out(const edgecore_call *raw) {
  return unary(
      raw, "aten::hardtanh.out", Kind::kSame, all_functions<Clamp, 1>(),
      [](Call &call, Params &params) {
        params.set(0, call.scalar(1));
        params.set(1, call.scalar(2));
      },
      3);
}

int32_t gelu_out(const edgecore_call *raw) {
  Call call(raw, "aten::gelu.out");
  const edgecore_str approximate = call.string(1);
  const bool tanh = approximate.size == 4 && __builtin_memcmp(approximate.data, "tanh", 4) == 0;
  const bool none = approximate.size == 4 && __builtin_memcmp(approximate.data, "none", 4) == 0;
  if (!call.check(tanh || none, "argument 'approximate' must be 'none' or 'tanh'")) return call.status();
  return unary(raw, "aten::gelu.out", Kind::kSame, tanh ? real_functions<GeluTanh, 1>() : real_functions<GeluErf, 1>(),
               kNoParams, 2);
}

int32_t logit_out(const edgecore_call *raw) {
  return unary(
      raw, "aten::logit.out", Kind::kFloating, real_functions<Logit, 1>(),
      [](Call &call, Params &params) {
        Scalar eps;
        eps.tag = EDGECORE_TAG_DOUBLE;
        eps.d = call.is_none(1) ? -1.0 : call.real(1);
        params.set(0, eps);
      },
      2);
}

int32_t clamp_out(const edgecore_call *raw) {
  Call call(raw, "aten::clamp.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(3);
  Scalar limits[2];
  Promotion promotion;
  (self.ndim() > 0 ? promotion.dim : promotion.zero) = self.type();
  for (int k = 0; k < 2; ++k) {
    if (call.is_none(static_cast<uint64_t>(k + 1))) continue;
    const Scalar limit = call.scalar(static_cast<uint64_t>(k + 1));
    limits[k] = limit;
    promotion.number = promote(promotion.number, limit.type());
  }
  const Type common = promotion.result();
  Params params;
  for (int k = 0; k < 2; ++k) {
    // ATen converts the limits to the common dtype first: in uint8, a limit of -1 becomes 255.
    if (common == Type::kU8 && limits[k].tag == EDGECORE_TAG_INT) limits[k].i = static_cast<uint8_t>(limits[k].i);
    params.set(k, limits[k]);
  }
  const bool low = !call.is_none(1);
  const bool high = !call.is_none(2);
  if (!call.check(low || high, "min or max must be given")) return call.status();
  const auto is_nan = [](const Scalar &limit) { return limit.tag == EDGECORE_TAG_DOUBLE && limit.d != limit.d; };
  const Functions functions = is_nan(limits[0]) || is_nan(limits[1]) ? real_functions<ClampNan, 1>()
                              : low && high                          ? all_functions<Clamp, 1>()
                              : low                                  ? all_functions<ClampMin, 1>()
                                                                     : all_functions<ClampMax, 1>();
  return elementwise(call, out, &self, 1, common, ResultKind::kSame, functions, params);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
