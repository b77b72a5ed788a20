#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Copies the entries of all kMaxOperands operands, even of unused ones, because with a constant size the compiler emits
// a few moves instead of a call of memcpy.
template <class T>
static void copy_row(T (&to)[kMaxOperands], const T (&from)[kMaxOperands]) {
  __builtin_memcpy(to, from, sizeof to);
}

void Loop::add_dim(int64_t size, const int64_t *byte_strides) {
  if (size == 1) return;
  sizes[ndim] = size;
  for (int k = 0; k < count; ++k) strides[ndim][k] = byte_strides[k];
  ++ndim;
}

void Loop::finish() {
  // Sort the dims by the output's strides, smallest first, so that dim 0 is the innermost. If two strides of the output
  // are equal, the strides of the inputs decide. An insertion sort is fast enough for at most 17 dims.
  const auto before = [this](int a, int b) {
    for (int k = 0; k < count; ++k) {
      const int64_t left = strides[a][k] < 0 ? -strides[a][k] : strides[a][k];
      const int64_t right = strides[b][k] < 0 ? -strides[b][k] : strides[b][k];
      if (left != right) return left < right;
    }
    return false;
  };
  int order[kMaxDims + 1];
  int n = 0;
  for (int d = 0; d < ndim; ++d) {
    int i = n++;
    while (i > 0 && before(d, order[i - 1])) {
      order[i] = order[i - 1];
      --i;
    }
    order[i] = d;
  }
  int64_t merged_sizes[kMaxDims + 1];
  int64_t merged_strides[kMaxDims + 1][kMaxOperands];
  int last = -1;
  for (int i = 0; i < n; ++i) {
    const int d = order[i];
    bool contiguous = last >= 0;  // true if dim d can be merged with the last merged dim in every operand
    for (int k = 0; contiguous && k < count; ++k) {
      contiguous = strides[d][k] == merged_strides[last][k] * merged_sizes[last];
    }
    if (contiguous) {
      merged_sizes[last] *= sizes[d];
      continue;
    }
    ++last;
    merged_sizes[last] = sizes[d];
    copy_row(merged_strides[last], strides[d]);
  }
  ndim = last + 1;
  numel = 1;
  for (int d = 0; d < ndim; ++d) {
    sizes[d] = merged_sizes[d];
    copy_row(strides[d], merged_strides[d]);
    numel *= sizes[d];
  }
  if (ndim != 0) return;
  ndim = 1;
  sizes[0] = 1;
  for (int k = 0; k < count; ++k) strides[0][k] = 0;
}

bool is_flat(const Operands &operands) {
  const Tensor &out = operands.items[0];
  bool covered = operands.count == 1;  // true if there is no input, or if at least one input has the output's shape
  for (int k = 0; k < operands.count; ++k) {
    const Tensor &t = operands.items[k];
    if (k > 0 && t.ndim() == 0) continue;
    if (t.ndim() != out.ndim()) return false;
    int64_t dense = 1;
    for (int d = t.ndim() - 1; d >= 0; --d) {
      if (t.size(d) != out.size(d) || (t.size(d) != 1 && t.stride(d) != dense)) return false;
      dense *= t.size(d);
    }
    covered = covered || k > 0;
  }
  return covered || out.ndim() == 0;
}

Loop flat_loop(const Operands &operands) {
  Loop loop;
  loop.count = operands.count;
  loop.numel = loop.sizes[0] = operands.items[0].numel();
  for (int k = 0; k < operands.count; ++k) {
    const Tensor &t = operands.items[k];
    loop.data[k] = t.data();
    loop.strides[0][k] = k > 0 && t.ndim() == 0 ? 0 : item_size(t.type());
  }
  return loop;
}

Loop make_loop(Call &call, const Shape &shape, const Operands &operands) {
  if (is_flat(operands) && operands.items[0].shape() == shape) return flat_loop(operands);
  Loop loop;
  loop.count = operands.count;
  loop.ndim = 0;
  for (int k = 0; k < operands.count; ++k) {
    const Tensor &t = operands.items[k];
    loop.data[k] = t.data();
    const int shift = shape.ndim - t.ndim();
    bool fits = shift >= 0;
    for (int d = 0; fits && d < t.ndim(); ++d) fits = t.size(d) == 1 || t.size(d) == shape.sizes[d + shift];
    if (!fits) {
      call.fail(EDGECORE_INVALID_ARGUMENT,
                Message() << "a tensor of shape " << t.shape() << " does not broadcast to shape " << shape);
      loop.ndim = 1;
      return loop;
    }
  }
  for (int d = 0; d < shape.ndim; ++d) {
    int64_t strides[kMaxOperands] = {};
    for (int k = 0; k < operands.count; ++k) {
      const Tensor &t = operands.items[k];
      const int dim = d - (shape.ndim - t.ndim());
      strides[k] = dim < 0 || t.size(dim) == 1 ? 0 : t.stride(dim) * item_size(t.type());
    }
    loop.add_dim(shape.sizes[d], strides);
  }
  loop.finish();
  return loop;
}

// Calls `run` for the elements [begin, end) of a loop nest. Elements are numbered in an order in which dim 0 varies
// fastest.
static void walk(const Loop &loop, int64_t begin, int64_t end, RunFn run, const void *context) {
  char *data[kMaxOperands];
  if (loop.ndim == 1) {
    for (int k = 0; k < kMaxOperands; ++k)
      data[k] = k < loop.count ? loop.data[k] + begin * loop.strides[0][k] : nullptr;
    return run(context, data, loop.strides[0], end - begin);
  }
  copy_row(data, loop.data);
  int64_t index[kMaxDims + 1];
  int64_t rest = begin;
  for (int d = 0; d < loop.ndim; ++d) {
    index[d] = 0;
    if (rest == 0) continue;
    index[d] = rest % loop.sizes[d];
    rest /= loop.sizes[d];
    for (int k = 0; k < loop.count; ++k) data[k] += index[d] * loop.strides[d][k];
  }
  for (int64_t element = begin; element < end;) {
    int64_t n = loop.sizes[0] - index[0];
    if (n > end - element) n = end - element;
    run(context, data, loop.strides[0], n);
    element += n;
    for (int k = 0; k < loop.count; ++k) data[k] -= index[0] * loop.strides[0][k];
    index[0] = 0;
    for (int d = 1; d < loop.ndim; ++d) {
      for (int k = 0; k < loop.count; ++k) data[k] += loop.strides[d][k];
      if (++index[d] < loop.sizes[d]) break;
      for (int k = 0; k < loop.count; ++k) data[k] -= loop.sizes[d] * loop.strides[d][k];
      index[d] = 0;
    }
  }
}

void for_each_run(Call &call, const Loop &loop, int64_t grain, RunFn run, const void *context) {
  if (call.failed() || loop.numel == 0) return;
  if (loop.ndim == 1 && loop.numel <= grain) return run(context, loop.data, loop.strides[0], loop.numel);
  call.parallel(loop.numel, grain, [&](int64_t begin, int64_t end, int64_t) { walk(loop, begin, end, run, context); });
}

namespace {

template <class T>
void copy_run(char *target, int64_t target_stride, const char *source, int64_t source_stride, int64_t n) {
  if (target_stride == static_cast<int64_t>(sizeof(T)) && source_stride == 0) {
    const T value = *reinterpret_cast<const T *>(source);
    T *out = reinterpret_cast<T *>(target);
    for (int64_t i = 0; i < n; ++i) out[i] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<T *>(target + i * target_stride) = *reinterpret_cast<const T *>(source + i * source_stride);
  }
}

// Copies a matrix of rows x columns elements and changes its layout: in the target the elements of a row are adjacent,
// in the source the elements of a column. Works on tiles of 16 x 16 elements, so that whole cache lines are read and
// written (16 elements of 4 bytes are 64 bytes) while all lines of a tile stay in the L1 cache.
template <class T>
void transpose(char *target, int64_t target_row, const char *source, int64_t source_column, int64_t rows,
               int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const int64_t c1 = c0 + kTile < columns ? c0 + kTile : columns;
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      const int64_t r1 = r0 + kTile < rows ? r0 + kTile : rows;
      for (int64_t r = r0; r < r1; ++r) {
        T *out = reinterpret_cast<T *>(target + r * target_row);
        const char *in = source + r * static_cast<int64_t>(sizeof(T));
        for (int64_t c = c0; c < c1; ++c) out[c] = *reinterpret_cast<const T *>(in + c * source_column);
      }
    }
  }
}

template <class T>
void copy_items(Call &call, const Loop &loop) {
  constexpr int64_t kItem = sizeof(T);
  constexpr int64_t kGrain = 65536 / kItem;
  int dense_dim = -1;  // the last dim d >= 1 along which the source is contiguous; -1: none
  for (int d = 1; d < loop.ndim; ++d) {
    if (loop.strides[d][1] == kItem && loop.sizes[d] >= 4) dense_dim = d;
  }
  if (dense_dim > 0 && loop.strides[0][0] == kItem && loop.strides[0][1] != kItem && loop.sizes[0] >= 4) {
    // Copy dim 0 and dense_dim by transpose(), because the target is contiguous along dim 0 and the source along
    // dense_dim; `outer` iterates over the other dims.
    Loop outer = loop;
    outer.ndim = 0;
    for (int d = 1; d < loop.ndim; ++d) {
      if (d == dense_dim) continue;
      outer.sizes[outer.ndim] = loop.sizes[d];
      for (int k = 0; k < 2; ++k) outer.strides[outer.ndim][k] = loop.strides[d][k];
      ++outer.ndim;
    }
    if (outer.ndim == 0) {
      outer.ndim = 1;
      outer.sizes[0] = 1;
    }
    const int64_t columns = loop.sizes[0];
    const int64_t rows = loop.sizes[dense_dim];
    outer.numel = loop.numel / (columns * rows);
    // Split the rows of each transpose into strips of 64 rows, so that even a single large matrix uses all threads.
    const int64_t strips = (rows + 63) / 64;
    call.parallel(outer.numel * strips, kGrain / (columns * 64) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r0 = i % strips * 64;
        const int64_t count = rows - r0 < 64 ? rows - r0 : 64;
        struct Step {
          const Loop *loop;
          int dim;
          int64_t r0, count, columns;
        } step = {&loop, dense_dim, r0, count, columns};
        const RunFn run = [](const void *context, char *const *data, const int64_t *, int64_t) {
          const Step &s = *static_cast<const Step *>(context);
          const int64_t row = s.loop->strides[s.dim][0];
          transpose<T>(data[0] + s.r0 * row, row, data[1] + s.r0 * kItem, s.loop->strides[0][1], s.count, s.columns);
        };
        walk(outer, i / strips, i / strips + 1, run, &step);
      }
    });
    return;
  }
  for_each_run(call, loop, kGrain, [](char *const *data, const int64_t *strides, int64_t n) {
    if (strides[0] == kItem && strides[1] == kItem) {
      __builtin_memcpy(data[0], data[1], static_cast<uint64_t>(n * kItem));
    } else {
      copy_run<T>(data[0], strides[0], data[1], strides[1], n);
    }
  });
}

}  // namespace

void copy_strided(Call &call, int64_t item, const Loop &loop) {
  if (call.failed() || loop.numel == 0) return;
  if (item == 1) return copy_items<uint8_t>(call, loop);
  if (item == 2) return copy_items<uint16_t>(call, loop);
  if (item == 4) return copy_items<uint32_t>(call, loop);
  copy_items<uint64_t>(call, loop);
}

TensorView::TensorView(void *data, Type type, const Shape &initial_shape) : shape(initial_shape) {
  int64_t stride = 1;
  for (int d = shape.ndim - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape.sizes[d];
  }
  tensor_.header = {sizeof(edgecore_tensor), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  tensor_.scalar_type = static_cast<int32_t>(type);
  tensor_.dl.data = data;
  tensor_.dl.device_type = EDGECORE_DEVICE_CPU;
  tensor_.dl.shape = shape.sizes;
  tensor_.dl.strides = strides;
}

TensorView::TensorView(Tensor base) : TensorView(base.data(), base.type(), base.shape()) {
  for (int d = 0; d < shape.ndim; ++d) strides[d] = base.stride(d);
}

void TensorView::shift(int64_t elements) {
  tensor_.dl.data = static_cast<char *>(tensor_.dl.data) + elements * item_size(static_cast<Type>(tensor_.scalar_type));
}

void TensorView::remove_dim(int dim) {
  --shape.ndim;
  for (int d = dim; d < shape.ndim; ++d) {
    shape.sizes[d] = shape.sizes[d + 1];
    strides[d] = strides[d + 1];
  }
}

void TensorView::insert_dim(int dim, int64_t size, int64_t stride) {
  for (int d = shape.ndim; d > dim; --d) {
    shape.sizes[d] = shape.sizes[d - 1];
    strides[d] = strides[d - 1];
  }
  ++shape.ndim;
  shape.sizes[dim] = size;
  strides[dim] = stride;
}

void TensorView::narrow(int dim, int64_t start, int64_t length, int64_t step) {
  if (length > 0) shift(start * strides[dim]);
  shape.sizes[dim] = length;
  strides[dim] *= step;
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
