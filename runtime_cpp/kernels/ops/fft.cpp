// Discrete Fourier transforms in double precision: radix 2 if the length n is a power of two, otherwise Bluestein's
// algorithm ("A linear filtering approach to the computation of discrete Fourier transform", 1970):
//   j k = (j^2 + k^2 - (k - j)^2) / 2 and chirp(k) = exp(sign pi i k^2 / n) give
//   y[k] = chirp(k) * the sum over j of (x[j] * chirp(j)) * conj(chirp(k - j)).
// The sum is a convolution, which is computed by radix-2 transforms of a length of at least 2 n - 1.
#include "ops/complex.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

struct Complex {
  double re;
  double im;
};
Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// Returns exp(2 pi i k / n) for 0 <= k < n.
Complex root_of_unity(int64_t k, int64_t n) {
  const double angle = 6.283185307179586476925 * (static_cast<double>(k) / static_cast<double>(n));
  return {__builtin_cos(angle), __builtin_sin(angle)};
}

// Transforms x in place, without scaling. n must be a power of two, and roots[k] = exp(sign 2 pi i k / n).
void radix2(Complex *x, int64_t n, const Complex *roots) {
  for (int64_t i = 1, j = 0; i < n; ++i) {
    int64_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      const Complex swap = x[i];
      x[i] = x[j];
      x[j] = swap;
    }
  }
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t start = 0; start < n; start += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        const Complex odd = x[start + half + k] * roots[k * (n / (2 * half))];
        const Complex even = x[start + k];
        x[start + k] = even + odd;
        x[start + half + k] = even - odd;
      }
    }
  }
}

// Fourier transforms of one length n: y[k] = the sum over j of x[j] exp(sign 2 pi i j k / n).
class Transform {
 public:
  Transform(Call &call, int64_t n, double sign) : n_(n) {
    if (!call.check(n > 0 && n <= int64_t{1} << 40, "a dim to transform is empty or too long")) return;
    length_ = 1;
    const bool power = (n & (n - 1)) == 0;
    while (length_ < (power ? n : 2 * n - 1)) length_ *= 2;
    roots_ = call.scratch<Complex>(length_);
    work_ = call.scratch<Complex>(length_);
    if (call.failed()) return;
    for (int64_t k = 0; k < length_; ++k) {
      roots_[k] = root_of_unity(k, length_);
      roots_[k].im *= sign;
    }
    if (power) return;
    chirp_ = call.scratch<Complex>(n);
    filter_ = call.scratch<Complex>(length_);
    if (call.failed()) return;
    // chirp_[k] = exp(sign pi i k^2 / n). Reduce k^2 modulo 2 n, the period of exp(pi i k^2 / n) in k^2, because a
    // large angle would lose precision.
    for (int64_t k = 0; k < n; ++k) {
      const uint64_t square = static_cast<uint64_t>(k) * static_cast<uint64_t>(k) % static_cast<uint64_t>(2 * n);
      chirp_[k] = root_of_unity(static_cast<int64_t>(square), 2 * n);
      chirp_[k].im *= sign;
    }
    for (int64_t k = 0; k < length_; ++k) filter_[k] = {0, 0};
    for (int64_t k = 0; k < n; ++k) {
      const Complex conjugate = {chirp_[k].re, -chirp_[k].im};
      filter_[k] = conjugate;
      if (k > 0) filter_[length_ - k] = conjugate;
    }
    radix2(filter_, length_, roots_);
  }

  // Transforms n numbers in place. The numbers are `step` elements apart.
  void run(Complex *x, int64_t step) const {
    for (int64_t k = 0; k < length_; ++k) work_[k] = {0, 0};
    for (int64_t k = 0; k < n_; ++k) work_[k] = chirp_ == nullptr ? x[k * step] : x[k * step] * chirp_[k];
    radix2(work_, length_, roots_);
    if (chirp_ != nullptr) {
      // Convolve with the filter: multiply the transforms and transform back. The inverse transform is the forward
      // transform with the result in reverse order.
      for (int64_t k = 0; k < length_; ++k) work_[k] = work_[k] * filter_[k];
      radix2(work_, length_, roots_);
      for (int64_t k = 1; k < length_ - k; ++k) {
        const Complex swap = work_[k];
        work_[k] = work_[length_ - k];
        work_[length_ - k] = swap;
      }
    }
    const double scale = chirp_ == nullptr ? 1.0 : 1.0 / static_cast<double>(length_);
    for (int64_t k = 0; k < n_; ++k) {
      const Complex y = chirp_ == nullptr ? work_[k] : work_[k] * chirp_[k];
      x[k * step] = {y.re * scale, y.im * scale};
    }
  }

 private:
  int64_t n_;
  int64_t length_ = 0;
  Complex *roots_ = nullptr;
  Complex *work_ = nullptr;
  Complex *chirp_ = nullptr;
  Complex *filter_ = nullptr;
};

// Computes the Fourier transforms of a row-major array along one dim, in place.
void transform_dim(Call &call, Complex *data, const Shape &shape, int dim, double sign) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.ndim; ++d) inner *= shape.sizes[d];
  const int64_t n = shape.sizes[dim];
  const Transform transform(call, n, sign);
  if (call.failed()) return;
  const int64_t lines = shape.numel() / n;
  for (int64_t line = 0; line < lines; ++line) {
    transform.run(data + line / inner * n * inner + line % inner, inner);
  }
}

struct Dims {
  int items[kMaxDims] = {};
  int count = 0;
  int last() const { return items[count - 1]; }
};

Dims dims_of(Call &call, uint64_t i, int ndim) {
  const Ints list = call.ints(i);
  Dims dims;
  uint32_t seen = 0;
  call.check(list.count > 0 && list.count <= ndim, "dim must name at least one dim, and none twice");
  for (int64_t k = 0; k < list.count && !call.failed(); ++k) {
    const int d = call.wrap_dim(list[k], ndim);
    call.check((seen >> d & 1) == 0, "a dim appears twice");
    seen |= 1u << d;
    dims.items[dims.count++] = d;
  }
  return dims;
}

// Returns the factor by which the result is scaled: 1 if `normalization` is 0, 1 / sqrt(number of points) if it is 1, 1
// / number of points if it is 2.
double scale_of(Call &call, int64_t normalization, const Shape &shape, const Dims &dims) {
  call.check(normalization >= 0 && normalization <= 2, "normalization must be 0, 1 or 2");
  double points = 1;
  for (int k = 0; k < dims.count; ++k) points *= static_cast<double>(shape.sizes[dims.items[k]]);
  return normalization == 0 ? 1.0 : normalization == 1 ? 1.0 / __builtin_sqrt(points) : 1.0 / points;
}

}  // namespace

int32_t fft_r2c_out(const edgecore_call *raw) {
  Call call(raw, "aten::_fft_r2c.out");
  const Tensor self = call.tensor(0);
  const int64_t normalization = call.integer(2);
  const bool onesided = call.flag(3);
  const Tensor out = call.complex_tensor(4);
  if (call.failed() || !call.check(self.ndim() < kMaxDims, "too many dims") ||
      !call.check(self.type() == part_of(out.type()), "out must have the complex dtype of the real input")) {
    return call.status();
  }
  const Dims dims = dims_of(call, 1, self.ndim());
  if (call.failed()) return call.status();
  const Shape full = self.shape();
  const double scale = scale_of(call, normalization, full, dims);
  Shape shape = full;
  if (onesided) shape.sizes[dims.last()] = full.sizes[dims.last()] / 2 + 1;
  if (!call.resize(out, shape) || out.numel() == 0) return call.status();
  const double *in = dense<double>(call, self);
  Complex *data = call.scratch<Complex>(full.numel());
  if (call.failed()) return call.status();
  for (int64_t i = 0; i < full.numel(); ++i) data[i] = {in[i] * scale, 0};
  for (int k = dims.count - 1; k >= 0 && !call.failed(); --k) transform_dim(call, data, full, dims.items[k], -1);
  Shape pairs = full;
  pairs.push(2);
  TensorView all(data, Type::kF64, pairs);
  all.narrow(dims.last(), 0, shape.sizes[dims.last()]);
  RealView target(out);
  if (!call.failed()) copy_tensor(call, target.tensor(), all.tensor());
  return call.status();
}

int32_t fft_c2r_out(const edgecore_call *raw) {
  Call call(raw, "aten::_fft_c2r.out");
  const Tensor self = call.complex_tensor(0);
  const int64_t normalization = call.integer(2);
  const int64_t length = call.integer(3);
  const Tensor out = call.tensor(4);
  if (call.failed() || !call.check(self.ndim() < kMaxDims, "too many dims") ||
      !call.check(out.type() == part_of(self.type()), "out must have the real dtype of the complex input")) {
    return call.status();
  }
  const Dims dims = dims_of(call, 1, self.ndim());
  if (call.failed()) return call.status();
  const int last = dims.last();
  const Shape half = self.shape();
  if (!call.check(length > 0 && half.sizes[last] == length / 2 + 1,
                  "the last transformed dim must have last_dim_size / 2 + 1 entries")) {
    return call.status();
  }
  Shape shape = half;
  shape.sizes[last] = length;
  const double scale = scale_of(call, normalization, shape, dims);
  if (!call.resize(out, shape) || out.numel() == 0) return call.status();
  Complex *data = call.scratch<Complex>(half.numel());
  Complex *full = call.scratch<Complex>(shape.numel());
  if (call.failed()) return call.status();
  Shape pairs = half;
  pairs.push(2);
  TensorView parts(data, Type::kF64, pairs);
  RealView source(self);
  copy_tensor(call, parts.tensor(), source.tensor());
  for (int k = 0; k + 1 < dims.count && !call.failed(); ++k) transform_dim(call, data, half, dims.items[k], 1);
  if (call.failed()) return call.status();
  // The input has only the first half of the spectrum along the last transformed dim. The spectrum of `length` real
  // numbers is Hermitian: entry length - k is the conjugate of entry k. This determines the second half. It also means
  // that the imaginary parts of entries 0 and length / 2 should be 0, so they are ignored.
  int64_t inner = 1;
  for (int d = last + 1; d < shape.ndim; ++d) inner *= shape.sizes[d];
  const int64_t stored = half.sizes[last];
  for (int64_t line = 0; line < shape.numel() / length; ++line) {
    const Complex *from = data + line / inner * stored * inner + line % inner;
    Complex *to = full + line / inner * length * inner + line % inner;
    for (int64_t k = 0; k < length; ++k) {
      Complex x = k < stored ? from[k * inner] : from[(length - k) * inner];
      x.im = k == 0 || 2 * k == length ? 0 : k < stored ? x.im : -x.im;
      to[k * inner] = {x.re * scale, x.im * scale};
    }
  }
  transform_dim(call, full, shape, last, 1);
  if (call.failed()) return call.status();
  TensorView real(full, Type::kF64, shape);
  for (int d = 0; d < shape.ndim; ++d) real.strides[d] *= 2;
  copy_tensor(call, out, real.tensor());
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
