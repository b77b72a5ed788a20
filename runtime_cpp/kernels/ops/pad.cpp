// Padding with values of the input: the values near the edges reflected, or the values at the edges replicated.
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// reflected and replicated return the input position that is copied to position i of the padded dim. `before` is the
// padding in front; a negative padding crops the input.
int64_t reflected(int64_t i, int64_t before, int64_t size) {
  const int64_t k = i - before;
  return k < 0 ? -k : k >= size ? 2 * (size - 1) - k : k;
}
int64_t replicated(int64_t i, int64_t before, int64_t size) {
  const int64_t k = i - before;
  return k < 0 ? 0 : k >= size ? size - 1 : k;
}

template <class Source>
int32_t pad(const edgecore_call *raw, const char *op, int dims, bool reflects, const Source &source_of) {
  Call call(raw, op);
  const Tensor self = call.tensor(0);
  const Ints padding = call.ints(1);
  const Tensor out = call.tensor(2);
  if (!call.check(!call.failed() && padding.count == 2 * dims, "padding must have two entries for each padded dim") ||
      !check_same_type(call, self, out)) {
    return call.status();
  }
  if (self.ndim() != dims + 1 && self.ndim() != dims + 2) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "the input must have " << int64_t{dims} + 1 << " or "
                                                          << int64_t{dims} + 2 << " dims");
  }
  const int first = self.ndim() - dims;
  Shape shape = self.shape();
  for (int d = first; d < self.ndim(); ++d) {
    const int64_t before = padding[2 * (self.ndim() - 1 - d)];
    const int64_t after = padding[2 * (self.ndim() - 1 - d) + 1];
    const int64_t size = self.size(d);
    const int64_t limit = reflects ? size : INT64_MAX / 4;
    if (before >= limit || after >= limit || before < -size || after < -size || size + before + after < 0 || size < 1) {
      return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "padding " << before << " and " << after
                                                            << " is out of range for a dim of size " << size);
    }
    shape.sizes[d] = size + before + after;
  }
  if (!call.resize(out, shape) || out.numel() == 0) return call.status();

  int64_t *from[3] = {};  // from[p][i] is the input position for position i of padded dim p
  for (int p = 0; p < dims; ++p) {
    const int d = first + p;
    const int64_t before = padding[2 * (self.ndim() - 1 - d)];
    from[p] = call.scratch<int64_t>(shape.sizes[d]);
    if (call.failed()) return call.status();
    for (int64_t i = 0; i < shape.sizes[d]; ++i) {
      const int64_t source = source_of(i, before, self.size(d));
      from[p][i] = source < 0 ? 0 : source >= self.size(d) ? self.size(d) - 1 : source;
    }
  }
  const char *source = dense_bytes(call, self);
  const BytesOut result(call, out);
  if (call.failed()) return call.status();
  const int last = self.ndim() - 1;
  const int64_t width = shape.sizes[last];
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    call.parallel(out.numel() / width, 16384 / width + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t rest = row;
        int64_t offset = 0;
        int64_t stride = self.size(last);
        for (int d = last - 1; d >= 0; --d) {
          const int64_t i = rest % shape.sizes[d];
          rest /= shape.sizes[d];
          offset += (d < first ? i : from[d - first][i]) * stride;
          stride *= self.size(d);
        }
        const T *in = reinterpret_cast<const T *>(source) + offset;
        T *to = reinterpret_cast<T *>(result.data()) + row * width;
        for (int64_t i = 0; i < width; ++i) to[i] = in[from[dims - 1][i]];
      }
    });
  };
  const int64_t item = item_size(self.type());
  if (item == 1) run(uint8_t{});
  if (item == 2) run(uint16_t{});
  if (item == 4) run(uint32_t{});
  if (item == 8) run(uint64_t{});
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t reflection_pad1d_out(const edgecore_call *raw) {
  return pad(raw, "aten::reflection_pad1d.out", 1, true, reflected);
}
int32_t reflection_pad2d_out(const edgecore_call *raw) {
  return pad(raw, "aten::reflection_pad2d.out", 2, true, reflected);
}
int32_t reflection_pad3d_out(const edgecore_call *raw) {
  return pad(raw, "aten::reflection_pad3d.out", 3, true, reflected);
}
int32_t replication_pad1d_out(const edgecore_call *raw) {
  return pad(raw, "aten::replication_pad1d.out", 1, false, replicated);
}
int32_t replication_pad2d_out(const edgecore_call *raw) {
  return pad(raw, "aten::replication_pad2d.out", 2, false, replicated);
}
int32_t replication_pad3d_out(const edgecore_call *raw) {
  return pad(raw, "aten::replication_pad3d.out", 3, false, replicated);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
