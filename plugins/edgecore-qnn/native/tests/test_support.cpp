#include "test_support.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/sha256.h"

namespace edgecore::qnn::test {
namespace {

void append(Bytes &blob, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; ++i) blob.push_back(static_cast<uint8_t>(number >> 8 * i));
}

}  // namespace

wire::HeaderT small_header() {
  wire::HeaderT header;
  header.sdk_build = "v2.51.0.260929181845";
  header.soc = "SM8650";
  header.soc_id = 57;
  header.partition_name = "partition";
  const auto tensor = [](const char *name, const char *dtype, std::vector<int64_t> dims) {
    auto result = std::make_unique<wire::TensorT>();
    result->name = name;
    result->dtype = dtype;
    result->dims = std::move(dims);
    return result;
  };
  header.inputs.push_back(tensor("x", "float32", {1, 3}));
  header.outputs.push_back(tensor("y", "uint8", {1, 2}));
  return header;
}

Bytes make_blob(wire::HeaderT header, const Bytes &context) {
  if (header.context_sha256.empty()) {
    uint8_t digest[32];
    edgecore::sha256({context.data(), context.size()}, digest);
    header.context_sha256.assign(std::begin(digest), std::end(digest));
  }
  Bytes blob;
  append(blob, 0x5678ABCD, 4);
  append(blob, 7, 8);
  append(blob, context.size(), 8);
  blob.resize(256);
  blob.insert(blob.end(), context.begin(), context.end());
  blob.resize((blob.size() + 15) / 16 * 16);
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishHeaderBuffer(builder, wire::CreateHeader(builder, &header));
  blob.insert(blob.end(), builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  append(blob, builder.GetSize(), 4);
  for (const char c : {'E', 'Q', 'N', 'H'}) blob.push_back(static_cast<uint8_t>(c));
  return blob;
}

Bytes small_blob() { return make_blob(small_header(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}); }

bool find_files(Files *out) {
  const char *folder = std::getenv("EDGECORE_QNN_TEST_FILES");
  if (folder == nullptr) {
    [] { GTEST_SKIP() << "EDGECORE_QNN_TEST_FILES is not set"; }();
    return false;
  }
  std::ifstream libraries(std::string(folder) + "/libraries.txt");
  std::getline(libraries, out->ort);
  std::getline(libraries, out->provider);
  const std::string blob = read_file(std::string(folder) + "/blob.bin");
  out->blob.assign(blob.begin(), blob.end());
  if (libraries && !out->blob.empty()) return true;
  ADD_FAILURE() << "the folder EDGECORE_QNN_TEST_FILES lacks files";
  return false;
}

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_failure(int32_t code, const std::string &part, const std::function<void()> &body) {
  try {
    body();
    ADD_FAILURE() << "nothing failed: " << part;
  } catch (const edgecore::backend::Failure &failure) {
    EXPECT_EQ(failure.code, code) << failure.text;
    EXPECT_NE(failure.text.find(part), std::string::npos) << failure.text;
  }
}

}  // namespace edgecore::qnn::test
