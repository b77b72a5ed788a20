// Functions that GLSL lacks, or defines too loosely in special cases. Include it after types.glsl.

#define INFINITY uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

// Returns x minus its whole turns (multiples of 2 pi), for sin() and cos(), whose errors may grow with x. 2 pi is the
// sum of three numbers, whose products with the number of turns are exact (except the last) for about 30000 turns.
float within_a_turn(float x) {
  precise const float turns = round(x * 0.1591549431);
  precise float rest = x - turns * 6.28125;
  rest = rest - turns * 0.001934051513671875;
  rest = rest - turns * 1.2556658930e-6;
  return rest;
}

// Returns exp(x) - 1: by a series near 0, where the difference would lose its digits.
float exp_minus_one(float x) {
  if (abs(x) > 0.5) return exp(x) - 1;
  return x * (1 + x * (0.5 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x * (1.0 / 5040)))))));
}

// Returns log(1 + x): near 0 as 2 atanh(y) with y = x / (2 + x) and atanh(y) = y + y^3 / 3 + ...
float log_plus_one(float x) {
  if (abs(x) > 0.25) return log(1 + x);
  const float y = x / (2 + x);
  const float z = y * y;
  return 2 * y * (1 + z * (1.0 / 3 + z * (0.2 + z * (1.0 / 7 + z * (1.0 / 9)))));
}

// Returns erf(x): by a series near 0, otherwise by formula 7.1.26 of Abramowitz and Stegun, whose error is 1.5e-7.
float error_function(float x) {
  const float size = abs(x), z = x * x;
  if (size < 0.5) {
    return x * 1.1283791671 * (1 + z * (-1.0 / 3 + z * (0.1 + z * (-1.0 / 42 + z * (1.0 / 216 - z / 1320)))));
  }
  const float t = 1 / (1 + 0.3275911 * size);
  const float polynomial =
      t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const float result = 1 - polynomial * exp(-z);
  return x < 0 ? -result : result;
}

// Returns tanh(x); clamps x before, because drivers may compute tanh() by exp(x), which overflows.
float bounded_tanh(float x) {
  return x != x ? x : tanh(clamp(x, -20.0, 20.0));
}

// Returns `base` to an integer power.
float whole_power(float base, int exponent) {
  uint left = uint(abs(exponent));
  float result = 1;
  while (left != 0) {
    if ((left & 1u) != 0) result *= base;
    base *= base;
    left >>= 1;
  }
  return exponent < 0 ? 1 / result : result;
}

// Returns `base` to any power. GLSL's pow() does not support negative bases.
float power(float base, float exponent) {
  const bool is_whole = floor(exponent) == exponent;
  if (is_whole && abs(exponent) <= 64) return whole_power(base, int(exponent));
  const float size = abs(base);
  if (base == 1) return 1;
  if (base != base || exponent != exponent) return NOT_A_NUMBER;
  if (base < 0 && !is_whole && size != INFINITY) return NOT_A_NUMBER;
  const bool is_odd = is_whole && abs(exponent) < 16777216 && mod(abs(exponent), 2) == 1;
  float result;
  if (size == 1) {
    result = 1;
  } else if (size == 0 || abs(exponent) == INFINITY || size == INFINITY) {
    result = (size > 1) == (exponent > 0) ? INFINITY : 0;
  } else {
    result = exp2(exponent * log2(size));
  }
  return base < 0 && is_odd ? -result : result;
}

// Returns an integer to an integer power, with wraparound; a negative exponent gives the quotient 1 / base^|exponent|
// rounded towards zero.
int power(int base, int exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
  int result = 1;
  while (exponent != 0) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
    exponent >>= 1;
  }
  return result;
}

// Returns a - b * c exactly, for a product b * c that is nearly a. Devices may round the product even in fma(), so it
// is computed in parts: the factors are split into halves of 12 bits, whose products are exact.
float exact_rest(float a, float b, float c) {
  precise const float b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
  precise const float c_high = uintBitsToFloat(floatBitsToUint(c) & 0xfffff000u);
  precise const float b_low = b - b_high, c_low = c - c_high;
  precise float rest = a - b_high * c_high;
  rest = rest - b_high * c_low;
  rest = rest - b_low * c_high;
  rest = rest - b_low * c_low;
  return rest;
}

// Returns a / b rounded down, correctly even if a / b itself was rounded up to the next integer.
float floor_divide(float a, float b) {
  const bool differ = a < 0 != b < 0;
  if (b == 0) return a / b;
  if (abs(a) == INFINITY) return NOT_A_NUMBER;
  if (abs(b) == INFINITY) return a != 0 && differ ? -1 : 0;
  const float quotient = floor(a / b);
  const float rest = exact_rest(a, quotient, b);
  if (rest != 0 && rest < 0 != b < 0) return quotient - 1;
  return abs(rest) >= abs(b) ? quotient + 1 : quotient;
}

// Returns the remainder a - b * floor(a / b), which has the sign of b.
float floor_remainder(float a, float b) {
  if (b == 0 || abs(a) == INFINITY) return NOT_A_NUMBER;
  if (abs(b) == INFINITY) return a == 0 || a < 0 == b < 0 ? a : b;
  return exact_rest(a, floor_divide(a, b), b);
}

float trunc_divide(float a, float b) {
  return trunc(a / b);
}

// Returns a / b rounded towards zero; 0 for b = 0. Does not divide by 0 or -1, which traps on some processors.
int trunc_divide(int a, int b) {
  return b == 0 ? 0 : b == -1 ? -a : a / b;
}

int floor_divide(int a, int b) {
  if (b == 0 || b == -1) return trunc_divide(a, b);
  const int quotient = a / b;
  return quotient * b != a && a < 0 != b < 0 ? quotient - 1 : quotient;
}

int floor_remainder(int a, int b) {
  return b == 0 ? 0 : a - floor_divide(a, b) * b;
}
