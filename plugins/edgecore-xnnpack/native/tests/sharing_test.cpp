// Tests the objects that programs share: packed weights, their folder, workspaces. Several threads load, run and close
// programs at the same time; `make fuzz` runs this test under the sanitizers.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "cache_folder.h"
#include "edgecore/backend.h"
#include "test_host.h"
#include "weights.h"
#include "xnnpack_generated.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace edgecore::xnnpack {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSide = 64;
constexpr uint32_t kMaxRows = 4;
constexpr uint32_t kNoId = UINT32_MAX;

// A network with the input [rows, 64]: a linear layer with `width` outputs, tanh, and a linear layer with 64 outputs.
// The weights of each layer have at least 32 KiB, so that they are written to files.
class Network {
 public:
  explicit Network(uint32_t width) {
    for (uint32_t i = 0; i < kSide * width; ++i) {
      first_.push_back(std::sin(static_cast<float>(i * width)) / 8);
      second_.push_back(std::cos(static_cast<float>(i + width)) / 8);
    }
    const auto bytes = [](const std::vector<float> &data) { return reinterpret_cast<const uint8_t *>(data.data()); };
    const uint64_t size = first_.size() * sizeof(float);
    named_ = {{"first", bytes(first_), size}, {"second", bytes(second_), size}};

    flatbuffers::FlatBufferBuilder b;
    const auto value = [&](uint32_t rows, uint32_t columns, uint32_t data, uint32_t id, bool is_external) {
      const std::vector<uint32_t> dims = {rows, columns};
      const auto tensor = wire::CreateTensorValueDirect(b, wire::DataType_fp32, 2, &dims, data,
                                                        is_external ? id : kNoId, is_external ? id + 1 : 0, id);
      return wire::CreateValue(b, wire::ValueUnion_TensorValue, tensor.Union());
    };
    const auto linear = [&](uint32_t in, uint32_t filter, uint32_t out) {
      const auto table = wire::CreateFullyConnected(b, in, filter, kNoId, out);
      return wire::CreateNode(b, wire::NodeUnion_FullyConnected, table.Union());
    };
    const std::vector<flatbuffers::Offset<wire::Value>> values = {
        value(kMaxRows, kSide, 0, 0, true), value(kMaxRows, kSide, 0, 1, true),  value(width, kSide, 1, 2, false),
        value(kSide, width, 2, 3, false),   value(kMaxRows, width, 0, 4, false), value(kMaxRows, width, 0, 5, false)};
    const auto tanh = wire::CreateNode(b, wire::NodeUnion_Tanh, wire::CreateUnary(b, 4, 5).Union());
    const std::vector<flatbuffers::Offset<wire::Node>> nodes = {linear(0, 2, 4), tanh, linear(5, 3, 1)};
    const std::vector<flatbuffers::Offset<wire::ConstantDataOffset>> data = {
        wire::CreateConstantDataOffset(b), wire::CreateConstantDataOffsetDirect(b, UINT64_MAX, size, "first"),
        wire::CreateConstantDataOffsetDirect(b, UINT64_MAX, size, "second")};
    const std::vector<uint32_t> inputs = {0}, outputs = {1};
    b.Finish(wire::CreateGraphDirect(b, "0", &nodes, &values, 2, &inputs, &outputs, &data), "XN01");
    blob_.assign(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
  }

  // Loads the network, runs it on `rows` rows, and closes it. If `twice` is true, runs it on a single row first.
  // Returns the outputs, or an empty vector after an error.
  std::vector<float> run(uint32_t rows, const std::vector<edgecore_option> &items, bool twice = false) const {
    const edgecore_options options = {items.data(), items.size(), sizeof(edgecore_option), 0};
    int32_t code = 0;
    char text[600] = {};
    edgecore_test_session *session =
        edgecore_test_open_with_host(edgecore_backend_v0(), edgecore_test_host(), 2, blob_.data(), blob_.size(),
                                     named_.data(), named_.size(), &options, &code, text, sizeof(text));
    if (session == nullptr) ADD_FAILURE() << text;
    if (session == nullptr) return {};
    std::vector<float> result;
    for (uint32_t current = twice ? 1 : rows; session != nullptr; current = rows) {
      alignas(16) float x[kMaxRows * kSide + 4] = {};
      for (uint32_t i = 0; i < current * kSide; ++i) x[i] = std::sin(static_cast<float>(i));
      alignas(16) float y[kMaxRows * kSide];
      edgecore_test_tensor tensors[2] = {{x, sizeof(x), 6, 2, {current, kSide}, {0, 1}},
                                         {y, sizeof(y), 6, 2, {current, kSide}, {0, 1}}};
      code = edgecore_test_run(session, tensors, 2, text, sizeof(text));
      EXPECT_EQ(code, EDGECORE_OK) << text;
      if (current == rows || code != EDGECORE_OK) {
        result.assign(y, y + rows * kSide);
        edgecore_test_close(session);
        session = nullptr;
      }
    }
    return code == EDGECORE_OK ? result : std::vector<float>();
  }

 private:
  std::vector<float> first_, second_;
  std::vector<edgecore_test_data> named_;
  std::vector<uint8_t> blob_;
};

edgecore_option text_option(const char *name, const std::string &value) {
  edgecore_option option = {{name, std::strlen(name)}, EDGECORE_OPTION_STRING, 0, {}};
  option.value.bytes = {reinterpret_cast<const uint8_t *>(value.data()), value.size()};
  return option;
}

edgecore_option number_option(const char *name, uint32_t type, int64_t value) {
  edgecore_option option = {{name, std::strlen(name)}, type, 0, {}};
  option.value.i = value;
  return option;
}

TEST(Sharing, ThreadsLoadAndRunAtOnceWhileTheFolderLosesFiles) {
  std::string folder = testing::TempDir() + "edgecore-packed-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Network networks[] = {Network(128), Network(160), Network(192)};
  // By network and number of rows, because on Arm, kernels for one row and for more rows add up in another order.
  std::vector<std::vector<float>> expected[std::size(networks)];
  for (size_t kind = 0; kind < std::size(networks); ++kind) {
    for (uint32_t rows = 1; rows <= kMaxRows; ++rows) expected[kind].push_back(networks[kind].run(rows, {}));
  }
  const std::string modes[] = {"disabled", "per_model", "global"};
  std::atomic<int> correct{0};

  const auto work = [&](int thread) {
    for (int i = 0; i < 12; ++i) {
      const int kind = (thread + i) % 3;
      std::vector<edgecore_option> options = {text_option("workspace_sharing", modes[(thread + i / 3) % 3])};
      if (i % 5 == 4) {
        options.push_back(number_option("weight_cache", EDGECORE_OPTION_BOOL, 0));
      } else if (i % 5 != 3) {
        options.push_back(text_option("weight_cache_folder", folder));
        options.push_back(number_option("weight_cache_limit", EDGECORE_OPTION_INT, 1));
      }
      const uint32_t rows = 1 + static_cast<uint32_t>(i) % kMaxRows;
      correct += networks[kind].run(rows, options, i % 2 == 1) == expected[kind][rows - 1] ? 1 : 0;
      // Act like another process: add a file to the folder, and remove a file.
      const std::string filler = folder + "/" + std::to_string(thread * 100 + i) + ".packed";
      std::ofstream(filler) << std::string(1 << 19, 'x');
      std::error_code ignored;
      for (const auto &entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().extension() != ".packed" || i % 2 == 0) continue;
        fs::remove(entry.path(), ignored);
        break;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(correct.load(), 4 * 12);

  uint64_t bytes = 0;
  for (const auto &entry : fs::directory_iterator(folder)) {
    EXPECT_NE(entry.path().filename().string().substr(0, 4), "tmp-");
    bytes += fs::file_size(entry.path());
  }
  EXPECT_GT(bytes, 0u);
  fs::remove_all(folder);
}

// A store of the same folder under another path reads the file, like another process.
TEST(Sharing, AMeasurementIsMadeOnceForAFolderAndKeptInAFile) {
  std::string folder = testing::TempDir() + "edgecore-packed-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto find = [](const std::string &path, const char *name, uint64_t number) {
    return find_measurement(find_store(path), name, [&] { return number; });
  };
  EXPECT_EQ(find(folder, "a", 7), 7u);
  EXPECT_EQ(find(folder, "a", 8), 7u);
  EXPECT_EQ(find(folder, "b", 9), 9u);
  EXPECT_EQ(find(folder + "/.", "a", 10), 7u);
  for (const auto &entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".measured") continue;
    EXPECT_EQ(fs::file_size(entry.path()), 200u);
    std::fstream(entry.path()).seekp(128).put('\x7f');
  }
  EXPECT_EQ(find(folder + "/./.", "a", 11), 11u);
  EXPECT_EQ(find(folder + "/././.", "a", 12), 11u);
  fs::remove_all(folder);
}

TEST(Sharing, ThreadsThatWantAMeasurementAtOnceMakeOne) {
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { EXPECT_EQ(find_measurement(find_store(""), "threads", [&] { return uint64_t(++made); }), 1u); });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(made.load(), 1);
}

// Each CacheFolder opens the folder anew, like another process.
TEST(Sharing, AllWhoFillANewFolderAtOnceGetOneSecret) {
  std::string folder = testing::TempDir() + "edgecore-packed-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (int round = 0; round < 200; ++round) {
    CacheFolder opened[4];
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (CacheFolder &cache : opened) {
      threads.emplace_back([&] {
        ++ready;
        while (ready.load() < 4) std::this_thread::yield();
        std::string problem;
        EXPECT_TRUE(cache.open(folder.c_str(), &problem)) << problem;
      });
    }
    for (std::thread &thread : threads) thread.join();
    for (const CacheFolder &cache : opened) EXPECT_EQ(cache.secret(), opened[0].secret()) << "round " << round;
    ASSERT_TRUE(fs::remove(folder + "/key"));
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace edgecore::xnnpack
