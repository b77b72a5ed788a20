// Computes elementwise operators of one tensor. One thread computes REPEAT adjacent vectors of four elements.
#version 450
#include "types.glsl"
#include "math.glsl"
#include "access.glsl"

layout(constant_id = 3) const uint REPEAT = 1;
layout(push_constant) uniform Params {
  uint vectors;
  float alpha;
  float beta;
  float gamma;
};
INPUT(1, source);

float apply(float x) {
#if defined(OP_abs)
  return abs(x);
#elif defined(OP_neg)
  return -x;
#elif defined(OP_sqrt)
  return sqrt(x);
#elif defined(OP_rsqrt)
  return inversesqrt(x);
#elif defined(OP_reciprocal)
  return 1 / x;
#elif defined(OP_round)
  return roundEven(x);
#elif defined(OP_floor)
  return floor(x);
#elif defined(OP_ceil)
  return ceil(x);
#elif defined(OP_trunc)
  return trunc(x);
#elif defined(OP_sign)
  return sign(x);
#elif defined(OP_exp)
  return exp(x);
#elif defined(OP_expm1)
  return exp_minus_one(x);
#elif defined(OP_log)
  return log(x);
#elif defined(OP_log10)
  return log(x) * 0.4342944819;
#elif defined(OP_log1p)
  return log_plus_one(x);
#elif defined(OP_sin)
  return sin(within_a_turn(x));
#elif defined(OP_cos)
  return cos(within_a_turn(x));
#elif defined(OP_tanh)
  return bounded_tanh(x);
#elif defined(OP_sigmoid)
  return 1 / (1 + exp(-x));
#elif defined(OP_erf)
  return error_function(x);
#elif defined(OP_gelu)
  return 0.5 * x * (1 + error_function(x * 0.7071067812));
#elif defined(OP_gelu_tanh)
  return 0.5 * x * (1 + bounded_tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
#elif defined(OP_silu)
  return x / (1 + exp(-x));
#elif defined(OP_hardswish)
  return x * clamp(x + 3, 0.0, 6.0) / 6;
#elif defined(OP_hardsigmoid)
  return x != x ? x : clamp(x + 3, 0.0, 6.0) / 6;
#elif defined(OP_hardshrink)
  return x >= -alpha && x <= alpha ? 0 : x;
#elif defined(OP_leaky_relu)
  return x > 0 ? x : x * alpha;
#elif defined(OP_elu)  // in elu, alpha scales the exponential, beta the whole result, gamma the exponent
  return beta * (x > 0 ? x : alpha * exp_minus_one(x * gamma));
#elif defined(OP_clamp)
  return x != x ? x : min(max(x, alpha), beta);
#endif
}

void main() {
  const int first = int(flat_id() * REPEAT);
  for (int i = first; i < first + int(REPEAT); ++i) {
    if (i >= int(vectors)) break;
    const vec4 x = READ4(source, i);
    WRITE4(i, vec4(apply(x.x), apply(x.y), apply(x.z), apply(x.w)));
  }
}
