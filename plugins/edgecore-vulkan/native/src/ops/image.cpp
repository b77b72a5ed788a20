// Records the shader dispatches of pooling and resizing of images.
#include <algorithm>

#include "ops/operators.h"
#include "ops/push.h"

namespace edgecore::vulkan {

namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

// Returns the first argument as an image. Throws unless it is a float tensor with 3 or 4 dims.
Tensor image(const Call &call) {
  const Tensor x = call.tensor(0);
  if (x.rank() != 3 && x.rank() != 4) call.unsupported("its input has %zu dims", x.rank());
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
  return x;
}

Shape resized(const Tensor &x, int64_t height, int64_t width) {
  Shape shape = x.shape;
  shape[shape.size() - 2] = height;
  shape[shape.size() - 1] = width;
  return shape;
}

// Appends a tensor's strides along batch, channel, y and x to the push constants.
void push_strides(const Tensor &x, std::vector<uint32_t> *push) {
  Shape strides = x.strides();
  strides.insert(strides.begin(), 4 - strides.size(), 0);
  for (const int64_t stride : strides) push->push_back(word(stride));
}

void dispatch_image(const Call &call, const std::string &shader, const char *kind, const Tensor &x, const Tensor &out,
                    std::vector<uint32_t> push, std::vector<uint32_t> constants = {}) {
  if (out.dtype != x.dtype) call.unsupported("its result is of %s", name_of(out.dtype));
  const auto has_vectors = [](const Tensor &tensor) {
    return tensor.strides()[tensor.rank() - 3] == 1 && tensor.size(3) % 4 == 0;
  };
  const bool vectors = has_vectors(x) && has_vectors(out), texels = call.prefers_texels(x);
  constants.insert(constants.begin(), vectors ? 1 : 0);
  const Tensor source = texels ? Call::texels(x, vectors ? 4 : 1) : x;
  call.dispatch_flat(shader + "_" + name_of(x.dtype) + (texels ? "_texel_" : "_buffer_") + kind, {out}, {source},
                     std::move(push), out.size(4) * ((out.size(3) + 3) / 4) * out.size(2) * out.size(1),
                     std::move(constants));
}

struct Window {
  std::array<int64_t, 2> kernel = {}, stride = {}, padding = {}, dilation = {1, 1};
  bool rounds_up = false;  // ceil_mode: also compute a last window that extends past the padding
};

// Reads the arguments kernel, stride and padding, with which all pooling operators begin.
Window window_of(const Call &call) {
  Window window;
  window.kernel = call.pair(1, 1);
  window.stride = call.integers(2).empty() ? window.kernel : call.pair(2, 1);
  window.padding = call.pair(3, 0);
  return window;
}

int64_t pooled_size(const Call &call, const Window &window, size_t dim, int64_t size) {
  const int64_t stride = window.stride[dim], padding = window.padding[dim];
  // Compute the distance that the window can move; with ceil_mode, the window may extend beyond the padded image by up
  // to stride - 1.
  const int64_t room =
      size + 2 * padding - window.dilation[dim] * (window.kernel[dim] - 1) - 1 + (window.rounds_up ? stride - 1 : 0);
  if (room < 0) call.damaged("its window is larger than its input");
  int64_t count = room / stride + 1;
  // Leave out a window that would start after the image and its leading padding.
  if (window.rounds_up && (count - 1) * stride >= size + padding) --count;
  return count;
}

void pool(const Call &call, const char *operation, const Window &window, int64_t divisor, bool include_padding,
          bool has_list) {
  const Tensor x = image(call);
  const Shape shape = resized(x, pooled_size(call, window, 0, x.size(2)), pooled_size(call, window, 1, x.size(1)));
  const Tensor out = has_list ? call.output_of_list(call.last(), 0, shape) : call.output(call.last(), shape);
  std::vector<uint32_t> push;
  for (const int64_t value : {x.size(4), x.size(3), x.size(2), x.size(1), out.size(2), out.size(1)}) {
    push.push_back(word(value));
  }
  for (const auto *numbers : {&window.kernel, &window.stride, &window.padding}) {
    for (const int64_t value : *numbers) push.push_back(word(value));
  }
  push_strides(x, &push);
  push_strides(out, &push);
  push.push_back(word(divisor));
  push.push_back(include_padding ? 1 : 0);
  call.check_iterations(window.kernel[0] * (window.kernel[1] + 1));
  dispatch_image(call, "pool", operation, x, out, std::move(push),
                 {word(window.dilation[0]), word(window.dilation[1])});
}

// Returns the number of input pixels per output pixel, computed as in PyTorch.
float scale_of(const Call &call, int64_t before, int64_t after, const double *factor, bool align_corners) {
  if (after < 1 || after > INT32_MAX) call.damaged("its result has no size or is too large");
  if (align_corners) {
    return after > 1 ? static_cast<float>(before - 1) / static_cast<float>(after - 1) : 0;
  }
  if (factor != nullptr) return static_cast<float>(1 / *factor);
  return static_cast<float>(before) / static_cast<float>(after);
}

// Records the dispatch that resizes an image. `factors` is the index of the argument with scale factors; argument 1 has
// the output sizes.
void upsample(const Call &call, const char *mode, size_t factors, bool align_corners) {
  const Tensor x = image(call);
  const int64_t before[2] = {x.size(2), x.size(1)};
  int64_t after[2] = {0, 0};
  float scale[2] = {0, 0};
  const bool has_factors = call.is_none(1);
  const std::vector<double> numbers = has_factors ? call.numbers(factors) : std::vector<double>();
  const std::vector<int64_t> sizes = has_factors ? std::vector<int64_t>() : call.integers(1);
  if (numbers.size() + sizes.size() != 2) call.damaged("it has %zu sizes or factors", numbers.size() + sizes.size());
  for (size_t i = 0; i < 2; ++i) {
    if (before[i] < 1) call.damaged("its input has no elements");
    if (has_factors) {
      const double size = static_cast<double>(before[i]) * numbers[i];
      if (!(size >= 1 && size <= INT32_MAX)) call.damaged("its factors are out of range");
      after[i] = static_cast<int64_t>(size);
    } else {
      after[i] = sizes[i];
    }
    scale[i] = scale_of(call, before[i], after[i], has_factors ? &numbers[i] : nullptr, align_corners);
    const bool is_nearest = mode == std::string_view("nearest");
    if (is_nearest && after[i] == before[i]) scale[i] = 1;
    if (is_nearest && after[i] == 2 * before[i]) scale[i] = 0.5f;
  }
  const Tensor out = call.output(call.last(), resized(x, after[0], after[1]));
  std::vector<uint32_t> push = {word(x.size(4)), word(x.size(3)), word(before[0]),   word(before[1]),
                                word(after[0]),  word(after[1]),  bits_of(scale[0]), bits_of(scale[1])};
  push_strides(x, &push);
  push_strides(out, &push);
  push.push_back(align_corners ? 1 : 0);
  dispatch_image(call, "upsample", mode, x, out, std::move(push));
}

}  // namespace

// max_pool2d: (input, kernel, stride, padding, dilation, ceil mode).
void max_pool(Call &call) {
  Window window = window_of(call);
  window.dilation = call.pair(4, 1);
  window.rounds_up = call.integer(5) != 0;
  pool(call, "max", window, 0, false, call.name() == "aten.max_pool2d_with_indices.default");
}

// avg_pool2d: (input, kernel, stride, padding, ceil mode, count_include_pad, divisor or none).
void average_pool(Call &call) {
  Window window = window_of(call);
  window.rounds_up = call.integer(4) != 0;
  const int64_t divisor = call.is_none(6) ? 0 : call.integer(6);
  if (divisor < INT32_MIN || divisor > INT32_MAX) call.damaged("its divisor is out of range");
  pool(call, "average", window, divisor, call.integer(5) != 0, false);
}

// upsample_nearest2d: (input, sizes or none, factors or none).
void upsample_nearest(Call &call) { upsample(call, "nearest", 2, false); }
// upsample_bilinear2d: (input, sizes or none, align_corners, factors or none).
void upsample_bilinear(Call &call) { upsample(call, "bilinear", 3, call.integer(2) != 0); }

}  // namespace edgecore::vulkan
