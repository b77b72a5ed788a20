// A slow but general implementation of convolutions with one to three spatial dims, as a relation between the elements
// of three tensors. It computes 3-d convolutions and gradients, which have no fast kernels.
#ifndef EDGECORE_KERNELS_CONVOLUTION_RELATION_H_
#define EDGECORE_KERNELS_CONVOLUTION_RELATION_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A convolution relates a position `a` of one tensor to a position `b` of another one: b = a * stride - padding + k *
// dilation, where k is the tap. `a` is in the output and `b` in the input; for a transposed convolution, `a` is in the
// input. The weight is [channels of a, channels of b in a group, kernel].
struct Relation {
  int dims = 0;
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t a_channels = 0;  // channels of `a` in one group; b_channels: channels of `b` in one group
  int64_t b_channels = 0;
  int64_t a_size[3] = {1, 1, 1};
  int64_t b_size[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {};
  int64_t dilation[3] = {1, 1, 1};

  int64_t a_pixels() const { return a_size[0] * a_size[1] * a_size[2]; }
  int64_t b_pixels() const { return b_size[0] * b_size[1] * b_size[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Calls body(a, b, weight), with the indices of three elements, for each product in the convolution.
  template <class Body>
  void for_each(const Body &body) const {
    // return at once if there is no product: the loops could still run very long
    if (a_pixels() == 0 || b_pixels() == 0 || taps() == 0) return;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < groups * a_channels; ++c) {
        for (int64_t j = 0; j < b_channels; ++j) {
          const int64_t a_plane = (n * groups * a_channels + c) * a_pixels();
          const int64_t b_plane = ((n * groups + c / a_channels) * b_channels + j) * b_pixels();
          const int64_t w_plane = (c * b_channels + j) * taps();
          for (int64_t k = 0; k < taps(); ++k) pixels(k, a_plane, b_plane, w_plane + k, body);
        }
      }
    }
  }

 private:
  template <class Body>
  void pixels(int64_t k, int64_t a_plane, int64_t b_plane, int64_t weight, const Body &body) const {
    const int64_t tap[3] = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1], k % kernel[2]};
    int64_t a[3];
    int64_t b[3];
    const auto inside = [&](int d) {
      b[d] = a[d] * stride[d] - padding[d] + tap[d] * dilation[d];
      return b[d] >= 0 && b[d] < b_size[d];
    };
    for (a[0] = 0; a[0] < a_size[0]; ++a[0]) {
      if (!inside(0)) continue;
      for (a[1] = 0; a[1] < a_size[1]; ++a[1]) {
        if (!inside(1)) continue;
        for (a[2] = 0; a[2] < a_size[2]; ++a[2]) {
          if (!inside(2)) continue;
          body(a_plane + (a[0] * a_size[1] + a[1]) * a_size[2] + a[2],
               b_plane + (b[0] * b_size[1] + b[1]) * b_size[2] + b[2], weight);
        }
      }
    }
  }
};

// Returns the relation between the tensors of a call. Checks that for_each() cannot compute an index outside of a
// tensor, and that no product overflows. `geometry` has stride, padding and dilation, each with one entry per spatial
// dim, or one entry for all.
Relation relation_of(Call &call, Tensor a, Tensor b, Tensor weight, const Ints *geometry, int64_t groups);

// Runs aten::convolution.out with three spatial dims.
int32_t convolution_general(Call &call);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CONVOLUTION_RELATION_H_
