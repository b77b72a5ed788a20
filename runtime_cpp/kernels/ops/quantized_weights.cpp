// Operators with weights of 2, 4 or 8 bits, which have a scale for each row or for each group of entries of a row.
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// A matrix of packed integer weights. 8 bits: int8 or uint8. 4 bits: two entries per byte, the first in the high half,
// stored as entry + 8. 2 bits: four entries per byte, the first in the lowest bits, stored as entry + 2.
struct Weights {
  const uint8_t *bytes = nullptr;
  bool is_signed = true;  // for 8 bits: true if the entries are int8, false if uint8
  int64_t bits = 8;
  int64_t rows = 0;
  int64_t width = 0;  // number of entries in a row of the weight
  int64_t groups = 1;
  const float *scales = nullptr;
  const float *zero_points = nullptr;  // zero point of each scale; NULL: all are zero

  int64_t entry(int64_t row, int64_t i) const {
    const uint8_t *row_bytes = bytes + row * width * bits / 8;
    if (bits == 8) return is_signed ? static_cast<int8_t>(row_bytes[i]) : row_bytes[i];
    if (bits == 4) return (row_bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15) - 8;
    return (row_bytes[i / 4] >> (i % 4 * 2) & 3) - 2;
  }

  void dequantize(int64_t row, float *target) const {
    const int64_t size = width / groups;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t index = row * groups + group;
      const float zero = zero_points == nullptr ? 0.0f : zero_points[index];
      dequantize(row, group * size, size, zero, scales[index], target + group * size);
    }
  }

 private:
  // Dequantizes `size` entries of a row, from entry `begin` on. Groups of whole bytes have loops that vectorize (six
  // times as fast, as measured); the slow loop over entry() is for other groups.
  void dequantize(int64_t row, int64_t begin, int64_t size, float zero, float scale, float *target) const {
    const int64_t per_byte = 8 / bits;
    const uint8_t *packed = bytes + (row * width + begin) / per_byte;
    const auto real = [&](int32_t value) { return (static_cast<float>(value) - zero) * scale; };
    if (begin % per_byte != 0 || size % per_byte != 0) {
      for (int64_t i = 0; i < size; ++i) target[i] = real(static_cast<int32_t>(entry(row, begin + i)));
    } else if (bits == 8 && is_signed) {
      for (int64_t i = 0; i < size; ++i) target[i] = real(static_cast<int8_t>(packed[i]));
    } else if (bits == 8) {
      for (int64_t i = 0; i < size; ++i) target[i] = real(packed[i]);
    } else if (bits == 4) {
      for (int64_t i = 0; i < size / 2; ++i) {
        target[2 * i] = real((packed[i] >> 4) - 8);
        target[2 * i + 1] = real((packed[i] & 15) - 8);
      }
    } else {
      for (int64_t i = 0; i < size / 4; ++i) {
        for (int32_t part = 0; part < 4; ++part) target[4 * i + part] = real((packed[i] >> (2 * part) & 3) - 2);
      }
    }
  }
};

Weights weights_of(Call &call, Tensor weight, Tensor scales, Tensor zero_points, int64_t bits) {
  Weights w;
  if (call.failed() || !call.check(weight.ndim() == 2, "the weight must have two dims") ||
      !call.check(weight.type() == Type::kI8 || weight.type() == Type::kU8, "the weight must be int8 or uint8") ||
      !call.check(is_floating(scales.type()), "the scales must be floating") ||
      !call.check((scales.ndim() == 1 || scales.ndim() == 2) && scales.size(0) == weight.size(0),
                  "there must be scales for each row of the weight") ||
      !call.check(zero_points.t == nullptr || zero_points.shape() == scales.shape(),
                  "the zero points must have the scales' shape")) {
    return w;
  }
  w.bits = bits;
  w.is_signed = weight.type() == Type::kI8;
  w.rows = weight.size(0);
  w.width = weight.size(1) * (8 / bits);
  w.groups = scales.ndim() == 2 ? scales.size(1) : 1;
  if (!call.check(w.groups > 0 && w.width % w.groups == 0,
                  "the number of groups must divide the size of the weight's rows"))
    return w;
  w.bytes = reinterpret_cast<const uint8_t *>(dense_bytes(call, weight));
  w.scales = dense<float>(call, scales);
  if (zero_points.t != nullptr) w.zero_points = dense<float>(call, zero_points);
  return w;
}

int32_t embedding(const edgecore_call *raw, const char *op, int64_t bits, uint64_t out_index) {
  Call call(raw, op);
  const Tensor weight = call.tensor(0);
  const Tensor scales = call.tensor(1);
  const Tensor zero_points = call.optional_tensor(2);
  const Tensor indices = call.tensor(5);
  const Tensor out = call.tensor(out_index);
  const Weights w = weights_of(call, weight, scales, zero_points, bits);
  if (call.failed() || !call.check(indices.ndim() < kMaxDims, "too many dims") ||
      !call.check(is_floating(out.type()), "out must be floating")) {
    return call.status();
  }
  Shape shape = indices.shape();
  shape.push(w.width);
  if (!call.resize(out, shape)) return call.status();
  const int64_t *rows = positions(call, indices, w.rows, false);
  const DenseOut<float> result(call, out);
  if (call.failed() || w.width == 0) return call.status();
  call.parallel(indices.numel(), 8192 / w.width + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) w.dequantize(rows[i], result.data() + i * w.width);
  });
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t embedding_byte_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_byte.out", 8, 6);
}
int32_t embedding_byte_dtype_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_byte.dtype_out", 8, 7);
}
int32_t embedding_4bit_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_4bit.out", 4, 6);
}
int32_t embedding_4bit_dtype_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_4bit.dtype_out", 4, 7);
}
int32_t embedding_2bit_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_2bit.out", 2, 6);
}
int32_t embedding_2bit_dtype_out(const edgecore_call *raw) {
  return embedding(raw, "quantized_decomposed::embedding_2bit.dtype_out", 2, 7);
}

// Computes input [rows, depth] times weight [depth, columns]; the weight has a scale for each of its rows.
int32_t mixed_mm_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::mixed_mm.out");
  const Tensor input = call.tensor(0);
  const Weights w = weights_of(call, call.tensor(1), call.tensor(2), call.optional_tensor(3), 8);
  const Tensor out = call.tensor(4);
  if (call.failed() ||
      !call.check(input.ndim() == 2 && input.size(1) == w.rows,
                  "input and weight must be matrices [rows, depth] and [depth, columns]") ||
      !call.check(is_floating(input.type()) && is_floating(out.type()), "input and out must be floating")) {
    return call.status();
  }
  Shape shape;
  shape.push(input.size(0));
  shape.push(w.width);
  if (!call.resize(out, shape)) return call.status();
  const float *x = dense<float>(call, input);
  const DenseOut<float> result(call, out);
  float *row = call.scratch<float>(w.width);
  if (call.failed()) return call.status();
  __builtin_memset(result.data(), 0, static_cast<uint64_t>(out.numel()) * sizeof(float));
  for (int64_t k = 0; k < w.rows; ++k) {
    w.dequantize(k, row);
    for (int64_t i = 0; i < input.size(0); ++i) {
      const float factor = x[i * w.rows + k];
      float *y = result.data() + i * w.width;
      for (int64_t j = 0; j < w.width; ++j) y[j] += factor * row[j];
    }
  }
  result.finish(call);
  return call.status();
}

// Computes input [..., depth] times the transpose of weight [columns, depth].
int32_t mixed_linear_out(const edgecore_call *raw) {
  Call call(raw, "quantized_decomposed::mixed_linear.out");
  const Tensor input = call.tensor(0);
  const Weights w = weights_of(call, call.tensor(1), call.tensor(2), call.optional_tensor(3), 8);
  const Tensor out = call.tensor(5);
  if (call.failed() ||
      !call.check(input.ndim() > 0 && input.size(input.ndim() - 1) == w.width,
                  "the last dims of input and weight must have the same size") ||
      !call.check(is_floating(input.type()) && is_floating(out.type()), "input and out must be floating")) {
    return call.status();
  }
  Shape shape = input.shape();
  shape.sizes[shape.ndim - 1] = w.rows;
  if (!call.resize(out, shape)) return call.status();
  const float *x = dense<float>(call, input);
  const DenseOut<float> result(call, out);
  float *rows = call.scratch<float>(w.width * call.worker_count());
  if (call.failed() || out.numel() == 0) return call.status();
  const int64_t count = out.numel() / w.rows;
  call.parallel(w.rows, 65536 / (w.width * count + 1) + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    float *row = rows + worker * w.width;
    for (int64_t j = begin; j < end; ++j) {
      w.dequantize(j, row);
      for (int64_t i = 0; i < count; ++i) {
        float lanes[16] = {};
        const float *from = x + i * w.width;
        int64_t k = 0;
        for (; k + 16 <= w.width; k += 16) {
          for (int l = 0; l < 16; ++l) lanes[l] += from[k + l] * row[k + l];
        }
        float sum = 0;
        for (int l = 0; l < 16; ++l) sum += lanes[l];
        for (; k < w.width; ++k) sum += from[k] * row[k];
        result.data()[i * w.rows + j] = sum;
      }
    }
  });
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
