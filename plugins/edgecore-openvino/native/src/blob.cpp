#include "blob.h"

#include <cstring>

namespace edgecore_openvino {
namespace {

using edgecore::backend::fail;

constexpr char kMagic[8] = {'O', 'P', 'E', 'N', 'V', 'I', 'N', 'O'};
constexpr uint64_t kAlignment = 64;  // of the weights, from the start of the blob

[[noreturn]] void refuse(const char *what, uint32_t number) {
  fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: %s %u", what, number);
}

// Reads little-endian numbers; past the end it throws.
class Reader {
 public:
  explicit Reader(edgecore_bytes bytes) : bytes_(bytes) {}

  const uint8_t *take(uint64_t size) {
    if (size > left()) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: its %llu bytes end too early",
           static_cast<unsigned long long>(bytes_.size));
    }
    const uint8_t *found = bytes_.data + position_;
    position_ += size;
    return found;
  }
  uint32_t u32() {
    const uint8_t *b = take(4);
    return b[0] | uint32_t{b[1]} << 8 | uint32_t{b[2]} << 16 | uint32_t{b[3]} << 24;
  }
  // The number of records, of 8 bytes at least, that follow.
  uint32_t count(const char *what) {
    const uint32_t found = u32();
    if (found > bytes_.size / 8) refuse(what, found);
    return found;
  }
  std::string text() {
    const uint32_t size = u32();
    const uint8_t *data = take(size);
    return {reinterpret_cast<const char *>(data), size};
  }
  void align() { take((kAlignment - position_ % kAlignment) % kAlignment); }
  uint64_t left() const { return bytes_.size - position_; }

 private:
  edgecore_bytes bytes_;
  uint64_t position_ = 0;
};

Argument read_argument(Reader &reader) {
  Argument argument;
  const uint32_t dtype = reader.u32(), rank = reader.u32();
  argument.code = static_cast<uint8_t>(dtype >> 8);
  argument.bits = static_cast<uint8_t>(dtype);
  if (dtype >> 16 != 0 || argument.bits == 0 || argument.bits % 8 != 0) refuse("a dtype of", dtype);
  if (rank > kMaxRank) refuse("a rank of", rank);
  for (uint32_t d = 0; d < rank; ++d) {
    argument.least.push_back(reader.u32());
    argument.greatest.push_back(reader.u32());
    if (argument.least.back() > argument.greatest.back()) refuse("the sizes of dim", d);
  }
  return argument;
}

}  // namespace

Payload read_blob(edgecore_bytes blob) {
  Reader reader(blob);
  if (blob.size < sizeof(kMagic) || std::memcmp(reader.take(sizeof(kMagic)), kMagic, sizeof(kMagic)) != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob was not written by edgecore-openvino");
  }
  const uint32_t version = reader.u32();
  if (version != kVersion) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob has version %u and this edgecore-openvino reads version %u: install the release that compiled it",
         version, kVersion);
  }
  Payload payload = {};
  const uint32_t kind = reader.u32();
  if (kind > static_cast<uint32_t>(Kind::kDevice)) refuse("a model of kind", kind);
  payload.kind = static_cast<Kind>(kind);
  const uint32_t inputs = reader.count("the number of inputs"), outputs = reader.count("the number of outputs");
  const uint32_t properties = reader.count("the number of properties");
  if (outputs == 0) refuse("the number of outputs", 0);
  for (uint32_t i = 0; i < inputs; ++i) payload.inputs.push_back(read_argument(reader));
  for (uint32_t i = 0; i < outputs; ++i) payload.outputs.push_back(read_argument(reader));
  payload.device = reader.text();
  for (uint32_t i = 0; i < properties; ++i) {
    std::string key = reader.text();
    payload.properties.emplace_back(std::move(key), reader.text());
  }
  payload.model.size = reader.u32();
  reader.align();
  payload.model.data = reader.take(payload.model.size);
  reader.align();
  payload.weights.size = reader.left();
  payload.weights.data = reader.take(payload.weights.size);

  payload.fixed = true;
  for (const auto *list : {&payload.inputs, &payload.outputs}) {
    for (const Argument &argument : *list) payload.fixed = payload.fixed && argument.least == argument.greatest;
  }
  if (payload.kind == Kind::kDevice && !payload.fixed) refuse("a model of sizes that vary, of kind", kind);
  return payload;
}

}  // namespace edgecore_openvino
