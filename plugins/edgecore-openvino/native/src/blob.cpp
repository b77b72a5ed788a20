#include "blob.h"

namespace edgecore::openvino {
namespace {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;

constexpr char kMagic[8] = {'O', 'P', 'E', 'N', 'V', 'I', 'N', 'O'};
constexpr uint64_t kAlignment = 64;  // alignment in bytes of model and weights, from the start of the blob

Argument read_argument(ByteReader &reader) {
  Argument argument;
  const uint32_t dtype = reader.u32(), rank = reader.u32();
  argument.code = static_cast<uint8_t>(dtype >> 8);
  argument.bits = static_cast<uint8_t>(dtype);
  if (dtype >> 16 != 0 || argument.bits == 0 || argument.bits % 8 != 0) damaged("an argument has the dtype %u", dtype);
  if (rank > kMaxRank) damaged("an argument has rank %u", rank);
  for (uint32_t d = 0; d < rank; ++d) {
    argument.min_shape.push_back(reader.u32());
    argument.max_shape.push_back(reader.u32());
    if (argument.min_shape.back() > argument.max_shape.back())
      damaged("dim %u of an argument has a minimum above its maximum", d);
  }
  return argument;
}

}  // namespace

Payload read_blob(edgecore_bytes blob) {
  ByteReader reader(blob);
  reader.header({kMagic, sizeof(kMagic)}, kVersion, "edgecore-openvino");
  Payload payload = {};
  const uint32_t kind = reader.u32();
  if (kind > static_cast<uint32_t>(Kind::kDevice)) damaged("it has a model of the unknown kind %u", kind);
  payload.kind = static_cast<Kind>(kind);
  const uint32_t inputs = reader.count(8), outputs = reader.count(8), properties = reader.count(8);
  if (outputs == 0) damaged("it has no outputs");
  for (uint32_t i = 0; i < inputs; ++i) payload.inputs.push_back(read_argument(reader));
  for (uint32_t i = 0; i < outputs; ++i) payload.outputs.push_back(read_argument(reader));
  payload.device = reader.text();
  for (uint32_t i = 0; i < properties; ++i) {
    const std::string_view key = reader.text(), value = reader.text();
    payload.properties.emplace_back(key, value);
  }
  payload.model.size = reader.u32();
  reader.align(kAlignment);
  payload.model.data = reader.take(payload.model.size);
  reader.align(kAlignment);
  payload.weights.size = reader.left();
  payload.weights.data = reader.take(payload.weights.size);

  payload.is_static = true;
  for (const auto *list : {&payload.inputs, &payload.outputs}) {
    for (const Argument &argument : *list)
      payload.is_static = payload.is_static && argument.min_shape == argument.max_shape;
  }
  if (payload.kind == Kind::kDevice && !payload.is_static) damaged("it has a compiled model with symbolic sizes");
  return payload;
}

}  // namespace edgecore::openvino
