#include "blob.h"

#include <algorithm>
#include <cfloat>
#include <iterator>
#include <set>

#include "core/sha256.h"
#include "qnn_header_generated.h"

namespace edgecore::qnn {
namespace {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;
using edgecore::backend::fail;

// A blob starts as in ExecuTorch: u32 magic, i64 signature, u64 size of the context, zeros up to the context.
constexpr uint32_t kMagic = 0x5678ABCD;
constexpr uint64_t kContextOffset = 256;
// After the context follow: zeros up to a multiple of kAlignment, the header (a flatbuffer), its u32 size, and kEnd.
constexpr uint64_t kAlignment = 16, kTrailer = 8;
constexpr std::string_view kEnd = "EQNH";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxRank = 8;
constexpr uint64_t kMaxBytes = uint64_t{1} << 31;  // maximum size of a context and of an argument

constexpr ElementType kTypes[] = {
    {"float32", 1, EDGECORE_DL_FLOAT, 32}, {"uint8", 2, EDGECORE_DL_UINT, 8},    {"int8", 3, EDGECORE_DL_INT, 8},
    {"uint16", 4, EDGECORE_DL_UINT, 16},   {"int16", 5, EDGECORE_DL_INT, 16},    {"int32", 6, EDGECORE_DL_INT, 32},
    {"int64", 7, EDGECORE_DL_INT, 64},     {"bool", 9, EDGECORE_DL_BOOL, 8},     {"float16", 10, EDGECORE_DL_FLOAT, 16},
    {"uint32", 12, EDGECORE_DL_UINT, 32},  {"uint64", 13, EDGECORE_DL_UINT, 64},
};

struct Sections {
  edgecore_bytes context, header;
};

void check_zeros(edgecore_bytes blob, uint64_t begin, uint64_t end) {
  const bool is_zero = std::all_of(blob.data + begin, blob.data + end, [](uint8_t byte) { return byte == 0; });
  if (!is_zero) damaged("the bytes around its context are not zeros");
}

Sections split(edgecore_bytes blob) {
  ByteReader reader(blob);
  if (reader.left() < kContextOffset || reader.u32() != kMagic) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob is no context binary in the layout of ExecuTorch's Qualcomm delegate: compile the model again");
  }
  reader.take(sizeof(uint64_t));  // skips the signature
  const auto size = reader.number<uint64_t>();
  const uint64_t start = blob.size - reader.left();
  check_zeros(blob, start, kContextOffset);
  reader.take(kContextOffset - start);
  if (size == 0 || size >= kMaxBytes) damaged("its context has %llu bytes", static_cast<unsigned long long>(size));
  const edgecore_bytes context = {reader.take(size), size};
  if (reader.left() < kTrailer || std::memcmp(blob.data + blob.size - kEnd.size(), kEnd.data(), kEnd.size()) != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob does not end with the header of edgecore-qnn: it is cut off, or another toolchain wrote it; compile "
         "the model again");
  }
  const uint32_t header_size = ByteReader({blob.data + blob.size - kTrailer, kTrailer}).u32();
  const uint64_t padding = (kAlignment - size % kAlignment) % kAlignment;  // kContextOffset is a multiple of kAlignment
  if (reader.left() != padding + header_size + kTrailer) {
    damaged("a header of %u bytes does not fill the %llu bytes behind its context", header_size,
            static_cast<unsigned long long>(reader.left()));
  }
  const uint64_t header_start = kContextOffset + size + padding;
  check_zeros(blob, kContextOffset + size, header_start);
  return {context, {blob.data + header_start, header_size}};
}

std::string text(const flatbuffers::String *value, const char *what) {
  if (value == nullptr || value->size() == 0) damaged("its header has no %s", what);
  std::string result = value->str();
  if (result.find('\0') != std::string::npos) damaged("its header has a %s with a zero byte", what);
  return result;
}

Argument read_argument(const wire::Tensor &table) {
  Argument argument = {};
  argument.name = text(table.name(), "name of a tensor");
  const std::string dtype = text(table.dtype(), "dtype of a tensor");
  const auto *type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType &candidate) { return candidate.name == dtype; });
  if (type == std::end(kTypes)) damaged("a tensor has the dtype '%s'", dtype.c_str());
  argument.type = *type;
  if (table.dims() != nullptr) {
    if (table.dims()->size() > kMaxRank) damaged("a tensor has %u dims", table.dims()->size());
    argument.shape.resize(table.dims()->size());  // copy bytes, as a damaged flatbuffer may misalign dims
    if (!argument.shape.empty()) {
      std::memcpy(argument.shape.data(), table.dims()->Data(), argument.shape.size() * sizeof(int64_t));
    }
  }
  argument.bytes = type->bits / 8;
  for (const int64_t size : argument.shape) {
    if (size <= 0 || static_cast<uint64_t>(size) > kMaxBytes / argument.bytes) {
      damaged("a tensor has a dim of size %lld", static_cast<long long>(size));
    }
    argument.bytes *= static_cast<uint64_t>(size);
  }
  argument.largest = table.largest();
  const bool is_float = type->onnx == kTypes[0].onnx;
  if (!(argument.largest >= 0 && argument.largest <= FLT_MAX) || (argument.largest != 0 && !is_float)) {
    damaged("the largest number of a tensor is %g", static_cast<double>(argument.largest));
  }
  return argument;
}

using Tensors = flatbuffers::Vector<flatbuffers::Offset<wire::Tensor>>;

std::vector<Argument> read_arguments(const Tensors *tensors, std::set<std::string> &names) {
  std::vector<Argument> result;
  if (tensors == nullptr) return result;
  for (const wire::Tensor *tensor : *tensors) {
    result.push_back(read_argument(*tensor));
    const std::string &name = result.back().name;
    if (!names.insert(name).second) damaged("two tensors have the name '%s'", name.c_str());
  }
  return result;
}

Payload read_header(edgecore_bytes header, edgecore_bytes context) {
  // Copy the header: the copy is aligned, and no other code can change it after its verification.
  std::vector<uint64_t> copy((header.size + 7) / 8);
  if (header.size != 0) std::memcpy(copy.data(), header.data, header.size);
  const auto *bytes = reinterpret_cast<const uint8_t *>(copy.data());
  flatbuffers::Verifier verifier(bytes, header.size, 16, 100000);
  if (!verifier.VerifyBuffer<wire::Header>(wire::HeaderIdentifier())) damaged("its header is no EQN1 flatbuffer");
  const wire::Header &table = *flatbuffers::GetRoot<wire::Header>(bytes);
  if (table.version() != kVersion) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob has version %u and this edgecore-qnn reads version %u: install the release that compiled it",
         table.version(), kVersion);
  }
  const auto *digest = table.context_sha256();
  uint8_t expected[32];
  edgecore::sha256({context.data, static_cast<size_t>(context.size)}, expected);
  if (digest == nullptr || digest->size() != std::size(expected) ||
      !std::equal(std::begin(expected), std::end(expected), digest->begin())) {
    damaged("its context binary does not have the SHA-256 in its header");
  }
  Payload payload = {};
  payload.sdk_build = text(table.sdk_build(), "SDK version");
  payload.soc = text(table.soc(), "name of a SoC");
  payload.soc_id = table.soc_id();
  payload.partition_name = text(table.partition_name(), "name of a partition");
  std::set<std::string> names;
  payload.inputs = read_arguments(table.inputs(), names);
  payload.outputs = read_arguments(table.outputs(), names);
  if (payload.inputs.empty() || payload.outputs.empty()) damaged("it has no inputs or no outputs");
  payload.context = context;
  return payload;
}

// Reads the numbers of a version: v2.51.0 -> {2, 51, 0}. Returns an empty vector if the text is not a version.
std::vector<uint64_t> version_numbers(std::string_view version) {
  std::vector<uint64_t> numbers;
  if (!version.empty() && version[0] == 'v') version.remove_prefix(1);
  bool expects_digit = true;
  for (const char c : version) {
    if (c == '.' && !expects_digit) {
      expects_digit = true;
      continue;
    }
    if (c < '0' || c > '9') return {};
    if (expects_digit) numbers.push_back(0);
    expects_digit = false;
    if (numbers.back() > UINT32_MAX * uint64_t{1000000}) return {};
    numbers.back() = numbers.back() * 10 + static_cast<uint64_t>(c - '0');
  }
  return expects_digit ? std::vector<uint64_t>{} : numbers;
}

}  // namespace

Payload read_blob(edgecore_bytes blob) {
  const Sections sections = split(blob);
  return read_header(sections.header, sections.context);
}

void check_sdk(std::string_view built, std::string_view installed) {
  std::vector<uint64_t> old = version_numbers(built), current = version_numbers(installed);
  if (old.empty()) damaged("'%.*s' is no version of the QNN SDK", static_cast<int>(built.size()), built.data());
  if (current.empty()) {
    fail(EDGECORE_INVALID_ARGUMENT,
         "the load option sdk_version must be the version of the installed QNN SDK, such as 2.51.0, and is '%.*s'",
         static_cast<int>(installed.size()), installed.data());
  }
  const size_t count = std::min(old.size(), current.size());
  old.resize(count);
  current.resize(count);
  if (old <= current) return;
  fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
       "the file was compiled by the QNN SDK %.*s and the older %.*s is installed, which cannot load it: pip install "
       "--upgrade onnxruntime-qnn, or compile the model again",
       static_cast<int>(built.size()), built.data(), static_cast<int>(installed.size()), installed.data());
}

}  // namespace edgecore::qnn
