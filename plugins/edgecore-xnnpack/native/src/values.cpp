#include "values.h"

#include <xnnpack.h>

#include <cmath>

namespace edgecore::xnnpack {

using backend::fail;

namespace {

constexpr int32_t kNibbleZero = 8;  // zero point of 4-bit weights, which are stored as unsigned numbers

struct TypeInfo {
  const char *name;
  uint32_t bits;
};

constexpr TypeInfo kTypes[] = {
    {"invalid", 0}, {"fp32", 32},    {"fp16", 16},  {"qint8", 8},  {"quint8", 8}, {"qint32", 32},
    {"qcint8", 8},  {"qcint32", 32}, {"qcint4", 4}, {"qdint8", 8}, {"qbint4", 4}, {"qpint8", 8},
    {"int32", 32},  {"pfp32", 32},   {"bf16", 16},  {"int64", 64},
};

unsigned long long printable(uint64_t number) { return number; }

// Returns the first `size` bytes of constant number `index`. Throws if the constant has fewer bytes.
edgecore_bytes find_constant(const ConstantTable *constants, uint32_t index, uint64_t size, const Sources &sources,
                             uint32_t value_id) {
  if (constants == nullptr || index == 0 || index >= constants->size()) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u names constant %u of %u", value_id, index,
         constants == nullptr ? 0 : constants->size());
  }
  const wire::ConstantDataOffset *entry = constants->Get(index);
  edgecore_bytes bytes = {nullptr, 0};
  const auto *key = entry->named_key();
  if (key != nullptr && key->size() != 0) {
    bytes = sources.host.named_data({key->c_str(), key->size()});
  } else if (entry->offset() <= sources.section.size && entry->size() <= sources.section.size - entry->offset()) {
    bytes = {sources.section.data + entry->offset(), entry->size()};
  } else {
    fail(EDGECORE_INVALID_PROGRAM,
         "value %u: constant %u (offset %llu, %llu bytes) is not in the constant section of %llu bytes", value_id,
         index, printable(entry->offset()), printable(entry->size()), printable(sources.section.size));
  }
  if (bytes.size < size) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: its constant has %llu bytes instead of %llu", value_id,
         printable(bytes.size), printable(size));
  }
  return {bytes.data, size};
}

bool good_scale(float scale) { return scale > 0 && std::isnormal(scale); }

float to_float(float scale) { return scale; }
float to_float(uint16_t bits) {  // bf16
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

void read_per_tensor(const wire::PerTensorQuant *q, Value *value) {
  int32_t low = 0, high = 0;
  if (value->type == Type::kQint8) low = -128, high = 127;
  if (value->type == Type::kQuint8) high = 255;
  if (!good_scale(q->scale()) || q->zero_point() < low || q->zero_point() > high) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: scale %g or zero point %d is not possible for %s", value->id,
         static_cast<double>(q->scale()), q->zero_point(), type_name(value->type));
  }
  value->quantization.scale = q->scale();
  value->quantization.zero_point = q->zero_point();
}

// Reads `count` scales from the constant `index`, or from the flatbuffer (`embedded`) if the index is 0. Throws unless
// all scales are positive normal numbers.
template <typename T>
const T *read_scales(const flatbuffers::Vector<T> *embedded, uint32_t index, uint32_t declared, uint64_t count,
                     const ConstantTable *constants, const Sources &sources, Graph *graph, const Value &value) {
  const uint64_t stored = index != 0 ? declared : embedded == nullptr ? 0 : embedded->size();
  if (stored != count) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: %llu scales where %s of %s needs %llu", value.id, printable(stored),
         type_name(value.type), shape_text(value.shape), printable(count));
  }
  const edgecore_bytes bytes =
      index == 0 ? edgecore_bytes{reinterpret_cast<const uint8_t *>(embedded->data()), count * sizeof(T)}
                 : find_constant(constants, index, count * sizeof(T), sources, value.id);
  uint8_t *copy = allocate_copy(bytes.size, &graph->owned);
  std::memcpy(copy, bytes.data, static_cast<size_t>(bytes.size));
  const auto *scales = reinterpret_cast<const T *>(copy);
  for (uint64_t i = 0; i < count; ++i) {
    const float scale = to_float(scales[i]);
    if (!good_scale(scale)) {
      fail(EDGECORE_INVALID_PROGRAM, "value %u: scale %llu is %g; it must be finite, normal and above 0", value.id,
           printable(i), static_cast<double>(scale));
    }
  }
  return scales;
}

void read_per_channel(const wire::PerChannelQuant *q, const ConstantTable *constants, const Sources &sources,
                      Graph *graph, Value *value) {
  const auto dim = static_cast<uint32_t>(q->channel_dim());
  if (dim >= value->shape.rank) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: %s has no channel dim %d", value->id, shape_text(value->shape),
         q->channel_dim());
  }
  value->quantization.channel_dim = dim;
  value->quantization.zero_point = value->type == Type::kQcint4 ? kNibbleZero : 0;
  value->quantization.scales = read_scales(q->scale(), q->scale_buffer_idx(), q->num_scales(), value->shape[dim],
                                           constants, sources, graph, *value);
}

void read_per_group(const wire::PerChannelGroupQuant *q, const ConstantTable *constants, const Sources &sources,
                    Graph *graph, Value *value) {
  const int32_t group = q->group_size();
  if (value->shape.rank != 2 || q->channel_dim() != 0 || group <= 0 || group % XNN_MIN_BLOCKSIZE != 0 ||
      value->shape[1] % static_cast<uint32_t>(group) != 0) {
    fail(EDGECORE_INVALID_PROGRAM,
         "value %u: groups of %d along dim %d of %s; only a matrix with channel dim 0 and groups of a "
         "multiple of %d that divides its inputs is possible",
         value->id, group, q->channel_dim(), shape_text(value->shape), XNN_MIN_BLOCKSIZE);
  }
  value->quantization.group_size = static_cast<uint32_t>(group);
  value->quantization.zero_point = kNibbleZero;
  value->quantization.group_scales =
      read_scales(q->scale_bf16(), q->scale_buffer_idx(), q->num_scales(),
                  element_count(value->shape) / static_cast<uint32_t>(group), constants, sources, graph, *value);
}

// Converts a 4-bit matrix to 8 bits (qcint8 with the same scales), because XNNPACK cannot pack rows with an odd number
// of 4-bit elements. In the blob, each row is padded to full bytes.
void widen_int4(edgecore_bytes bytes, Graph *graph, Value *value) {
  const uint64_t columns = value->shape[1], stride = (columns + 1) / 2;
  value->bytes = element_count(value->shape);
  uint8_t *copy = allocate_copy(value->bytes, &graph->owned);
  for (uint64_t i = 0; i < value->bytes; ++i) {
    const uint64_t column = i % columns;
    const int nibble = bytes.data[i / columns * stride + column / 2] >> (column % 2 * 4) & 15;
    copy[i] = static_cast<uint8_t>(nibble - kNibbleZero);
  }
  value->type = Type::kQcint8;
  value->quantization.zero_point = 0;
  value->data = copy;
}

void read_quantization(const wire::QuantizedTensorValue *table, const ConstantTable *constants, const Sources &sources,
                       Graph *graph, Value *value) {
  const auto *params = table->quant_params();
  const auto kind = params == nullptr ? wire::QuantParams_NONE : table->quant_params_type();
  switch (value->type) {
    case Type::kQint8:
    case Type::kQuint8:
    case Type::kQint32:
      if (kind == wire::QuantParams_PerTensorQuant) {
        return read_per_tensor(table->quant_params_as_PerTensorQuant(), value);
      }
      break;
    case Type::kQcint8:
    case Type::kQcint32:
    case Type::kQcint4:
      if (kind == wire::QuantParams_PerChannelQuant) {
        return read_per_channel(table->quant_params_as_PerChannelQuant(), constants, sources, graph, value);
      }
      break;
    case Type::kQbint4:
      if (kind == wire::QuantParams_PerChannelGroupQuant) {
        return read_per_group(table->quant_params_as_PerChannelGroupQuant(), constants, sources, graph, value);
      }
      break;
    case Type::kQdint8:
      if (kind == wire::QuantParams_PerTokenDynamicQuant) {
        const int32_t dims = table->quant_params_as_PerTokenDynamicQuant()->num_nonbatch_dims();
        if (dims < 1 || static_cast<uint32_t>(dims) > value->shape.rank) {
          fail(EDGECORE_INVALID_PROGRAM, "value %u: %d dims of %s share parameters", value->id, dims,
               shape_text(value->shape));
        }
        value->quantization.nonbatch_dims = static_cast<uint32_t>(dims);
        return;
      }
      break;
    default:
      break;
  }
  fail(EDGECORE_INVALID_PROGRAM, "value %u: %s does not go with quantization parameters of kind %u", value->id,
       type_name(value->type), static_cast<unsigned>(kind));
}

void read_tensor(const wire::TensorValue *tensor, Value *value) {
  value->id = tensor->id_out();
  const auto type = static_cast<int>(tensor->datatype());
  if (type <= 0 || type >= static_cast<int>(std::size(kTypes))) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u has the unknown data type %d", value->id, type);
  }
  value->type = static_cast<Type>(type);
  if (value->type == Type::kBf16 || value->type == Type::kPfp32 || value->type == Type::kQpint8) {
    fail(EDGECORE_NOT_SUPPORTED, "value %u is %s, which this XNNPACK does not support", value->id,
         type_name(value->type));
  }
  const auto *dims = tensor->dims();
  const uint32_t rank = dims == nullptr ? 0 : dims->size();
  if (rank > kMaxRank || rank != tensor->num_dims()) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u has %u dims and num_dims %u; at most %u are possible", value->id, rank,
         tensor->num_dims(), kMaxRank);
  }
  value->shape.rank = rank;
  for (uint32_t i = 0; i < rank; ++i) value->shape[i] = dims->Get(i);
  if (!in_limits(value->shape)) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: a shape of %s is empty or too large", value->id,
         shape_text(value->shape));
  }
  switch (tensor->flags()) {
    case 0:
      value->role = tensor->constant_buffer_idx() != 0 ? Role::kConstant : Role::kInternal;
      break;
    case XNN_VALUE_FLAG_EXTERNAL_INPUT:
      value->role = Role::kInput;
      break;
    case XNN_VALUE_FLAG_EXTERNAL_OUTPUT:
      value->role = Role::kOutput;
      break;
    default:
      fail(EDGECORE_INVALID_PROGRAM, "value %u has flags 0x%x; only 1 (input) or 2 (output) are possible", value->id,
           tensor->flags());
  }
  if (tensor->flags() != 0) {
    value->argument = tensor->external_id();
    if (value->argument >= kMaxArguments || tensor->constant_buffer_idx() != 0) {
      fail(EDGECORE_INVALID_PROGRAM, "value %u is external as argument %u with constant %u", value->id, value->argument,
           tensor->constant_buffer_idx());
    }
  }
}

}  // namespace

uint8_t *allocate_copy(uint64_t bytes, Copies *copies) {
  constexpr uint64_t kCopyAlignment = 64;
  if (bytes > SIZE_MAX - kOverread - kCopyAlignment) throw std::bad_alloc();
  std::unique_ptr<uint8_t[]> memory(
      // Use new instead of make_unique, which would also set all bytes to zero.
      new uint8_t[static_cast<size_t>(bytes + kOverread + kCopyAlignment)]);
  const auto address = reinterpret_cast<uintptr_t>(memory.get());
  copies->push_back(std::move(memory));
  return reinterpret_cast<uint8_t *>((address + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment);
}

const char *type_name(Type type) { return kTypes[static_cast<size_t>(type)].name; }
uint32_t type_bits(Type type) { return kTypes[static_cast<size_t>(type)].bits; }

void read_value(const wire::Value *table, const ConstantTable *constants, const Sources &sources, Graph *graph,
                Value *value) {
  const wire::QuantizedTensorValue *quantized = table->value_as_QuantizedTensorValue();
  const wire::TensorValue *tensor = quantized != nullptr ? quantized->tensor_value() : table->value_as_TensorValue();
  if (tensor == nullptr) fail(EDGECORE_INVALID_PROGRAM, "a value of the blob has no tensor");
  read_tensor(tensor, value);

  const bool is_plain = is_float(value->type) || value->type == Type::kInt32 || value->type == Type::kInt64;
  if (is_plain != (quantized == nullptr)) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: %s %s quantization parameters", value->id, type_name(value->type),
         is_plain ? "has no" : "needs");
  }
  if (value->type == Type::kQdint8 && value->role != Role::kInternal) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: qdint8 exists only between nodes", value->id);
  }
  if (value->type == Type::kInt64 && value->role != Role::kInput) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: int64 exists only as an input", value->id);
  }
  if (type_bits(value->type) < 8 && value->role != Role::kConstant) {
    fail(EDGECORE_INVALID_PROGRAM, "value %u: %s exists only as a constant", value->id, type_name(value->type));
  }
  if (quantized != nullptr) read_quantization(quantized, constants, sources, graph, value);

  const bool has_odd_rows = value->type == Type::kQcint4 && value->shape.rank == 2 && value->shape[1] % 2 != 0;
  value->bytes =
      ((element_count(value->shape) + (has_odd_rows ? value->shape[0] : 0)) * type_bits(value->type) + 7) / 8;
  if (value->role != Role::kConstant) return;
  const edgecore_bytes bytes =
      find_constant(constants, tensor->constant_buffer_idx(), value->bytes, sources, value->id);
  if (has_odd_rows) {
    widen_int4(bytes, graph, value);
    return;
  }
  value->data = bytes.data;
}

}  // namespace edgecore::xnnpack
