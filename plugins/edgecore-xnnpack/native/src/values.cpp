#include "values.h"

#include <xnnpack.h>

#include <cmath>
#include <new>

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kOverread = 64;  // XNNPACK reads at most 32 bytes past an array
constexpr uint64_t kCopyAlignment = 64;
constexpr int32_t kNibbleZero = 8;  // 4-bit weights are unsigned

struct TypeInfo {
  const char *name;
  uint32_t bits;
};

constexpr TypeInfo kTypes[] = {
    {"invalid", 0}, {"fp32", 32},  {"fp16", 16},    {"qint8", 8},  {"quint8", 8},
    {"qint32", 32}, {"qcint8", 8}, {"qcint32", 32}, {"qcint4", 4}, {"qdint8", 8},
    {"qbint4", 4},  {"qpint8", 8}, {"int32", 32},   {"pfp32", 32}, {"bf16", 16},
};

unsigned long long Number(uint64_t number) { return number; }

// The bytes of entry `index`, at least `size` of them.
bool FindConstant(const ConstantTable *constants, uint32_t index, uint64_t size, const Sources &sources,
                  uint32_t value_id, edgecore_bytes *out, Failure *failure) {
  if (constants == nullptr || index == 0 || index >= constants->size()) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u names constant %u of %u", value_id, index,
                        constants == nullptr ? 0 : constants->size());
  }
  const wire::ConstantDataOffset *entry = constants->Get(index);
  edgecore_bytes bytes = {nullptr, 0};
  const auto *key = entry->named_key();
  if (key != nullptr && key->size() != 0) {
    if (sources.host->named_data(sources.scope, {key->c_str(), key->size()}, &bytes, nullptr) != EDGECORE_OK) {
      return failure->Set(
          EDGECORE_NOT_FOUND,
          "value %u: the file has no data under the key '%.*s'; if its weights are in a .ptd file, pass it", value_id,
          static_cast<int>(key->size() < 100 ? key->size() : 100), key->c_str());
    }
  } else if (entry->offset() <= sources.section.size && entry->size() <= sources.section.size - entry->offset()) {
    bytes = {sources.section.data + entry->offset(), entry->size()};
  } else {
    return failure->Set(EDGECORE_INVALID_PROGRAM,
                        "value %u: constant %u (offset %llu, %llu bytes) is not in the constant section of %llu bytes",
                        value_id, index, Number(entry->offset()), Number(entry->size()), Number(sources.section.size));
  }
  if (bytes.size < size) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: its constant has %llu bytes instead of %llu", value_id,
                        Number(bytes.size), Number(size));
  }
  *out = {bytes.data, size};
  return true;
}

uint8_t *Own(Graph *graph, uint64_t size) {
  auto *memory = new (std::nothrow) uint8_t[size + kOverread + kCopyAlignment];
  if (memory == nullptr) return nullptr;
  graph->owned.emplace_back(memory);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return memory + (kCopyAlignment - address % kCopyAlignment) % kCopyAlignment;
}

bool GoodScale(float scale) { return scale > 0 && std::isnormal(scale); }

float Float(float scale) { return scale; }
float Float(uint16_t bits) {  // bf16
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

bool ReadPerTensor(const wire::PerTensorQuant *q, Value *value, Failure *failure) {
  int32_t low = 0, high = 0;
  if (value->type == Type::kQint8) low = -128, high = 127;
  if (value->type == Type::kQuint8) high = 255;
  if (!GoodScale(q->scale()) || q->zero_point() < low || q->zero_point() > high) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: scale %g or zero point %d is not possible for %s",
                        value->id, static_cast<double>(q->scale()), q->zero_point(), TypeName(value->type));
  }
  value->quantization.scale = q->scale();
  value->quantization.zero_point = q->zero_point();
  return true;
}

// Copies `count` scales: those of the flatbuffer, or those of constant `index` if the file has them there. Any
// alignment.
template <typename T>
const T *ReadScales(const flatbuffers::Vector<T> *embedded, uint32_t index, uint32_t declared, uint64_t count,
                    const ConstantTable *constants, const Sources &sources, Graph *graph, const Value &value,
                    Failure *failure) {
  const uint64_t have = index != 0 ? declared : embedded == nullptr ? 0 : embedded->size();
  if (have != count) {
    failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %llu scales where %s of %s needs %llu", value.id, Number(have),
                 TypeName(value.type), Text(value.shape), Number(count));
    return nullptr;
  }
  edgecore_bytes bytes = {nullptr, 0};
  if (index == 0) {
    bytes = {reinterpret_cast<const uint8_t *>(embedded->data()), count * sizeof(T)};
  } else if (!FindConstant(constants, index, count * sizeof(T), sources, value.id, &bytes, failure)) {
    return nullptr;
  }
  uint8_t *copy = Own(graph, bytes.size);
  if (copy == nullptr) {
    failure->Set(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for scales");
    return nullptr;
  }
  std::memcpy(copy, bytes.data, bytes.size);
  const auto *scales = reinterpret_cast<const T *>(copy);
  for (uint64_t i = 0; i < count; ++i) {
    const float scale = Float(scales[i]);
    if (!GoodScale(scale)) {
      failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: scale %llu is %g; it must be finite, normal and above 0",
                   value.id, Number(i), static_cast<double>(scale));
      return nullptr;
    }
  }
  return scales;
}

bool ReadPerChannel(const wire::PerChannelQuant *q, const ConstantTable *constants, const Sources &sources,
                    Graph *graph, Value *value, Failure *failure) {
  const auto dim = static_cast<uint32_t>(q->channel_dim());
  if (dim >= value->shape.rank) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %s has no channel dim %d", value->id, Text(value->shape),
                        q->channel_dim());
  }
  value->quantization.channel_dim = dim;
  value->quantization.zero_point = value->type == Type::kQcint4 ? kNibbleZero : 0;
  value->quantization.scales = ReadScales(q->scale(), q->scale_buffer_idx(), q->num_scales(), value->shape[dim],
                                          constants, sources, graph, *value, failure);
  return value->quantization.scales != nullptr;
}

bool ReadPerGroup(const wire::PerChannelGroupQuant *q, const ConstantTable *constants, const Sources &sources,
                  Graph *graph, Value *value, Failure *failure) {
  const int32_t group = q->group_size();
  if (value->shape.rank != 2 || q->channel_dim() != 0 || group <= 0 || group % XNN_MIN_BLOCKSIZE != 0 ||
      value->shape[1] % static_cast<uint32_t>(group) != 0) {
    return failure->Set(EDGECORE_INVALID_PROGRAM,
                        "value %u: groups of %d along dim %d of %s; only a matrix with channel dim 0 and groups of a "
                        "multiple of %d that divides its inputs is possible",
                        value->id, group, q->channel_dim(), Text(value->shape), XNN_MIN_BLOCKSIZE);
  }
  value->quantization.group_size = static_cast<uint32_t>(group);
  value->quantization.zero_point = kNibbleZero;
  value->quantization.group_scales =
      ReadScales(q->scale_bf16(), q->scale_buffer_idx(), q->num_scales(),
                 Elements(value->shape) / static_cast<uint32_t>(group), constants, sources, graph, *value, failure);
  return value->quantization.group_scales != nullptr;
}

// XNNPACK packs 4-bit rows of an even length only, and writers fill odd ones up. As qcint8 they mean the same.
bool Widen(edgecore_bytes bytes, Graph *graph, Value *value, Failure *failure) {
  const uint64_t columns = value->shape[1], stride = (columns + 1) / 2;
  value->bytes = Elements(value->shape);
  uint8_t *copy = Own(graph, value->bytes);
  if (copy == nullptr) return failure->Set(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for 8-bit weights");
  for (uint64_t i = 0; i < value->bytes; ++i) {
    const uint64_t column = i % columns;
    const int nibble = bytes.data[i / columns * stride + column / 2] >> (column % 2 * 4) & 15;
    copy[i] = static_cast<uint8_t>(nibble - kNibbleZero);
  }
  value->type = Type::kQcint8;
  value->quantization.zero_point = 0;
  value->data = copy;
  return true;
}

bool ReadQuantization(const wire::QuantizedTensorValue *table, const ConstantTable *constants, const Sources &sources,
                      Graph *graph, Value *value, Failure *failure) {
  const auto *params = table->quant_params();
  const auto kind = params == nullptr ? wire::QuantParams_NONE : table->quant_params_type();
  switch (value->type) {
    case Type::kQint8:
    case Type::kQuint8:
    case Type::kQint32:
      if (kind == wire::QuantParams_PerTensorQuant) {
        return ReadPerTensor(table->quant_params_as_PerTensorQuant(), value, failure);
      }
      break;
    case Type::kQcint8:
    case Type::kQcint32:
    case Type::kQcint4:
      if (kind == wire::QuantParams_PerChannelQuant) {
        return ReadPerChannel(table->quant_params_as_PerChannelQuant(), constants, sources, graph, value, failure);
      }
      break;
    case Type::kQbint4:
      if (kind == wire::QuantParams_PerChannelGroupQuant) {
        return ReadPerGroup(table->quant_params_as_PerChannelGroupQuant(), constants, sources, graph, value, failure);
      }
      break;
    case Type::kQdint8:
      if (kind == wire::QuantParams_PerTokenDynamicQuant) {
        const int32_t dims = table->quant_params_as_PerTokenDynamicQuant()->num_nonbatch_dims();
        if (dims < 1 || static_cast<uint32_t>(dims) > value->shape.rank) {
          return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %d dims of %s share parameters", value->id, dims,
                              Text(value->shape));
        }
        value->quantization.nonbatch_dims = static_cast<uint32_t>(dims);
        return true;
      }
      break;
    default:
      break;
  }
  return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %s does not go with quantisation parameters of kind %u",
                      value->id, TypeName(value->type), static_cast<unsigned>(kind));
}

bool ReadTensor(const wire::TensorValue *tensor, Value *value, Failure *failure) {
  value->id = tensor->id_out();
  const auto type = static_cast<int>(tensor->datatype());
  if (type <= 0 || type >= static_cast<int>(std::size(kTypes))) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u has the unknown data type %d", value->id, type);
  }
  value->type = static_cast<Type>(type);
  if (value->type == Type::kBf16 || value->type == Type::kPfp32 || value->type == Type::kQpint8) {
    return failure->Set(EDGECORE_NOT_SUPPORTED, "value %u is %s, which this XNNPACK does not compute", value->id,
                        TypeName(value->type));
  }
  const auto *dims = tensor->dims();
  const uint32_t rank = dims == nullptr ? 0 : dims->size();
  if (rank > kMaxRank || rank != tensor->num_dims()) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u has %u dims and num_dims %u; at most %u are possible",
                        value->id, rank, tensor->num_dims(), kMaxRank);
  }
  value->shape.rank = rank;
  for (uint32_t i = 0; i < rank; ++i) value->shape[i] = dims->Get(i);
  if (!InLimits(value->shape)) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: a shape of %s is empty or too large", value->id,
                        Text(value->shape));
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
      return failure->Set(EDGECORE_INVALID_PROGRAM,
                          "value %u has flags 0x%x; only 1 (input) or 2 (output) are possible", value->id,
                          tensor->flags());
  }
  if (tensor->flags() != 0) {
    value->argument = tensor->external_id();
    if (value->argument >= kMaxArguments || tensor->constant_buffer_idx() != 0) {
      return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u is external as argument %u with constant %u", value->id,
                          value->argument, tensor->constant_buffer_idx());
    }
  }
  return true;
}

}  // namespace

const char *TypeName(Type type) { return kTypes[static_cast<size_t>(type)].name; }
uint32_t TypeBits(Type type) { return kTypes[static_cast<size_t>(type)].bits; }

bool ReadValue(const wire::Value *table, const ConstantTable *constants, const Sources &sources, Graph *graph,
               Value *value, Failure *failure) {
  const wire::QuantizedTensorValue *quantized = table->value_as_QuantizedTensorValue();
  const wire::TensorValue *tensor = quantized != nullptr ? quantized->tensor_value() : table->value_as_TensorValue();
  if (tensor == nullptr) return failure->Set(EDGECORE_INVALID_PROGRAM, "a value of the blob has no tensor");
  if (!ReadTensor(tensor, value, failure)) return false;

  const bool plain = IsFloat(value->type) || value->type == Type::kInt32;
  if (plain != (quantized == nullptr)) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %s %s quantisation parameters", value->id,
                        TypeName(value->type), plain ? "has no" : "needs");
  }
  if (value->type == Type::kQdint8 && value->role != Role::kInternal) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: qdint8 exists only between nodes", value->id);
  }
  if (TypeBits(value->type) < 8 && value->role != Role::kConstant) {
    return failure->Set(EDGECORE_INVALID_PROGRAM, "value %u: %s exists only as a constant", value->id,
                        TypeName(value->type));
  }
  if (quantized != nullptr && !ReadQuantization(quantized, constants, sources, graph, value, failure)) return false;

  const bool odd = value->type == Type::kQcint4 && value->shape.rank == 2 && value->shape[1] % 2 != 0;
  value->bytes = ((Elements(value->shape) + (odd ? value->shape[0] : 0)) * TypeBits(value->type) + 7) / 8;
  if (value->role != Role::kConstant) return true;
  edgecore_bytes bytes;
  if (!FindConstant(constants, tensor->constant_buffer_idx(), value->bytes, sources, value->id, &bytes, failure)) {
    return false;
  }
  if (odd) return Widen(bytes, graph, value, failure);
  value->data = bytes.data;
  return true;
}

}  // namespace edgecore::xnnpack
