// Operators with packed matrices: checks the arguments and divides the work among threads.
#include <string.h>

#include "call.h"
#include "operators.h"
#include "variant.h"

namespace edgecore::llm {
namespace {

// Minimum work of a thread, in bytes of weights that it reads.
constexpr int64_t kBytesOfPiece = 64 * 1024;

// If x has a single row, each thread gets a multiple of this number of tiles (16 outputs each), because the functions
// of an instruction set multiply up to 8 tiles at once.
constexpr int64_t kTilesOfPiece = 8;

// Reads a packed matrix [tiles, groups, bytes of a block], uint8, with `outputs` outputs; the rest of the last tile is
// padding.
PackedMatrix packed_matrix(Call &call, uint64_t index, const char *name, int64_t outputs) {
  const Tensor tensor = call.tensor(index, name, Dtype::kUint8, 3);
  if (call.failed()) return {};
  const int64_t bytes = tensor.size(2);
  const bool is_known = bytes == static_cast<int64_t>(sizeof(Block4)) || bytes == static_cast<int64_t>(sizeof(Block8));
  call.check(tensor.size(0) > 0 && tensor.size(1) > 0, "the packed matrix is empty");
  call.check(is_known, "the blocks of the packed matrix must have 288 or 544 bytes");
  call.check(outputs > 0 && outputs <= tensor.size(0) * kBlockOutputs && outputs > (tensor.size(0) - 1) * kBlockOutputs,
             "the packed matrix does not have that number of outputs");
  return {tensor.data<const uint8_t>(), outputs, tensor.size(1), bytes == static_cast<int64_t>(sizeof(Block4)) ? 4 : 8};
}

bool equals(const edgecore_list &text, const char *other) {
  return text.count == strlen(other) && memcmp(text.items.chars, other, text.count) == 0;
}

Activation read_activation(Call &call, uint64_t index) {
  const edgecore_list name = call.string(index, "activation");
  if (equals(name, "silu")) return Activation::kSilu;
  if (equals(name, "gelu_tanh")) return Activation::kGeluTanh;
  call.check(equals(name, "none"), "activation must be none, silu or gelu_tanh");
  return Activation::kNone;
}

}  // namespace

// linear(Tensor x, Tensor packed, int outputs, Tensor? bias, Tensor? norm, float eps, Tensor? residual, str activation)
// -> Tensor: x [..., inputs] -> [..., outputs]. If there is a `norm`, rows of x are normalized first. Then bias,
// activation and residual are applied to the product, in this order. With an activation, blocks of 16 gates and of 16
// values alternate in the outputs, and the result [..., outputs / 2] is activation(gates) * values.
int32_t EDGECORE_CALL linear(const edgecore_call *c) {
  Call call(c, "linear");
  const Tensor x = call.tensor(0, "x", Dtype::kFloat32, -1);
  const int64_t outputs = call.integer(2, "outputs");
  const PackedMatrix w = packed_matrix(call, 1, "packed", outputs);
  const Tensor bias = call.optional_tensor(3, "bias", Dtype::kFloat32, 1);
  const Tensor norm = call.optional_tensor(4, "norm", Dtype::kFloat32, 1);
  const float eps = static_cast<float>(call.number(5, "eps"));
  const Tensor residual = call.optional_tensor(6, "residual", Dtype::kFloat32, -1);
  const Activation activation = read_activation(call, 7);
  const Tensor out = call.tensor(8, "out", Dtype::kFloat32, -1);
  if (call.failed()) return call.status();
  const int64_t ndim = x.ndim();
  if (!call.check(ndim >= 1 && ndim <= 8, "x must have 1 to 8 dims")) return call.status();
  const int64_t inputs = x.size(ndim - 1);
  const bool is_gated = activation != Activation::kNone;
  const int64_t columns = is_gated ? outputs / 2 : outputs;
  call.check(inputs > (w.groups - 1) * kGroup && inputs <= w.groups * kGroup,
             "x has another number of inputs than the packed matrix");
  call.check(bias.t == nullptr || bias.size(0) == outputs, "bias must have one value for each output");
  call.check(norm.t == nullptr || norm.size(0) == inputs, "norm must have one weight for each input");
  call.check(!is_gated || outputs % (2 * kBlockOutputs) == 0, "the outputs must be pairs of 16 gates and 16 values");
  int64_t shape[8];
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < ndim; ++d) rows *= shape[d] = x.size(d);
  shape[ndim - 1] = columns;
  if (residual.t != nullptr) {
    bool is_same = residual.ndim() == ndim;
    for (int64_t d = 0; is_same && d < ndim; ++d) is_same = residual.size(d) == shape[d];
    call.check(is_same, "residual must have the shape of the result");
  }
  if (!call.resize(out, shape, ndim) || rows == 0) return call.status();
  const Variant &functions = variant();
  const RoundedRows rounded = {call.scratch<int8_t>(rows * w.groups * kGroup), call.scratch<float>(rows * w.groups),
                               call.scratch<int32_t>(rows * w.groups), w.groups, rows};
  float *normalized = norm.t == nullptr ? nullptr : call.scratch<float>(rows * inputs);
  float *products = is_gated ? call.scratch<float>(rows * outputs) : out.data<float>();
  if (call.failed()) return call.status();
  const int32_t offset = functions.offset(w.bits);
  const float *source = x.data<const float>();
  const auto round = [&](int64_t begin, int64_t end, uint32_t) {
    if (norm.t != nullptr) {
      for (int64_t row = begin; row < end; ++row) {
        functions.normalize(source + row * inputs, norm.data<const float>(), inputs, eps, normalized + row * inputs);
      }
    }
    functions.round(norm.t == nullptr ? source : normalized, inputs, offset, begin, end, rounded);
  };
  constexpr int64_t kRowsOfPiece = 8;
  if (rows < 2 * kRowsOfPiece) {
    round(0, rows, 0);
  } else {
    call.parallel_for(rows, kRowsOfPiece, round);
  }
  const int64_t tiles = is_gated ? 2 : 1;  // tiles (of 16 outputs) of one work item
  const int64_t tile_bytes = w.groups * static_cast<int64_t>(w.bits == 4 ? sizeof(Block4) : sizeof(Block8));
  int64_t grain = rows > 4 ? 1 : 1 + kBytesOfPiece / (tiles * tile_bytes);
  if (rows == 1) grain = (grain * tiles + kTilesOfPiece - 1) / kTilesOfPiece * kTilesOfPiece / tiles;
  call.parallel_for(w.tiles() / tiles, grain, [&](int64_t begin, int64_t end, uint32_t) {
    functions.multiply(rounded, w, begin * tiles, end * tiles, products);
    const int64_t first = begin * tiles * kBlockOutputs;
    const int64_t last = end * tiles * kBlockOutputs < outputs ? end * tiles * kBlockOutputs : outputs;
    for (int64_t row = 0; row < rows; ++row) {
      float *product = products + row * outputs;
      float *target = out.data<float>() + row * columns;
      if (bias.t != nullptr) {
        for (int64_t i = first; i < last; ++i) product[i] += bias.data<const float>()[i];
      }
      if (is_gated) functions.gate(activation, product + first, end - begin, target + first / 2);
      if (residual.t != nullptr) {
        const float *added = residual.data<const float>() + row * columns;
        for (int64_t i = first / tiles; i < last / tiles; ++i) target[i] += added[i];
      }
    }
  });
  return call.status();
}

namespace {

template <class Block>
void read_output(const PackedMatrix &w, int64_t output, int64_t size, float *target) {
  const Block *blocks = reinterpret_cast<const Block *>(w.data) + output / kBlockOutputs * w.groups;
  const int64_t lane = output % kBlockOutputs;
  for (int64_t i = 0; i < size; ++i) {
    const Block &block = blocks[i / kGroup];
    const int64_t k = i % kGroup;
    int32_t value;
    if constexpr (Block::kBits == 4) {
      const uint8_t byte = block.lines[k % 16 / 4][4 * lane + k % 4];
      value = k < 16 ? byte & 15 : byte >> 4;
    } else {
      value = block.lines[k / 4][4 * lane + k % 4];
    }
    target[i] = static_cast<float>(value - Block::kOffset) * float16_value(block.scales[lane]);
  }
}

}  // namespace

// embedding(Tensor packed, Tensor ids, int rows, int size) -> Tensor: returns the rows `ids` [T] int64 of the packed
// matrix [rows, size], as float32 [T, size].
int32_t EDGECORE_CALL embedding(const edgecore_call *c) {
  Call call(c, "embedding");
  const PackedMatrix w = packed_matrix(call, 0, "packed", call.integer(2, "rows"));
  const Tensor ids = call.tensor(1, "ids", Dtype::kInt64, 1);
  const int64_t size = call.integer(3, "size");
  const Tensor out = call.tensor(4, "out", Dtype::kFloat32, 2);
  if (call.failed()) return call.status();
  if (!call.check(size > (w.groups - 1) * kGroup && size <= w.groups * kGroup,
                  "the packed matrix does not have rows of that size")) {
    return call.status();
  }
  const int64_t shape[] = {ids.size(0), size};
  if (!call.resize(out, shape, 2)) return call.status();
  for (int64_t t = 0; t < shape[0]; ++t) {
    const int64_t id = ids.data<const int64_t>()[t];
    if (!call.check(id >= 0 && id < w.outputs, "an id is outside of the vocabulary")) return call.status();
    float *target = out.data<float>() + t * size;
    if (w.bits == 4) {
      read_output<Block4>(w, id, size, target);
    } else {
      read_output<Block8>(w, id, size, target);
    }
  }
  return call.status();
}

}  // namespace edgecore::llm
