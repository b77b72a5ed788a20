// Tests runs on a device: their results, time-outs and failures.
#include "execution.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <tuple>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::BlobWriter;
using test::Bytes;
using test::expect_failure;
using test::Gate;
using test::Replaced;
using test::TestArguments;

constexpr uint64_t kMinute = 60'000'000'000;

class DeviceExecution : public test::DeviceTest {};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceExecution);

// A blob with an execution of it.
struct Loaded {
  Loaded(ShaderDevice &device, Bytes bytes)
      : blob(std::move(bytes)),
        graph(read_blob(test::view(blob), backend::Host(test::host_table(), &scope))),
        weights(device),
        execution(std::make_unique<Execution>(graph, device, weights, StateBuffers(), kMinute, false)) {}

  void prepare() { execution->prepare(arguments.get(scope)); }
  void start() { execution->start(arguments.get(scope)); }
  void run() {
    start();
    execution->finish();
  }

  edgecore_scope scope;
  Bytes blob;
  Graph graph;
  Weights weights;
  TestArguments arguments;
  std::unique_ptr<Execution> execution;
};

// y = x + x on up to 4 rows of 1000 numbers.
Bytes doubling() {
  BlobWriter blob;
  const uint32_t x = blob.tensor({4, 1000});
  return blob.finish({x}, {blob.add(x, x, {4, 1000})});
}

std::unique_ptr<Loaded> prepared_doubling(ShaderDevice &device) {
  auto loaded = std::make_unique<Loaded>(device, doubling());
  loaded->arguments.add({4, 1000}, std::vector<float>(4000, 1));
  loaded->arguments.add({4, 1000}, std::vector<float>(4000, -1));
  loaded->prepare();
  return loaded;
}

// A graph of sums and views, whose results the test computes as well. All numbers are integers that floats represent.
struct RandomGraph {
  explicit RandomGraph(uint32_t seed) : random(seed) {
    width = 2 * (1 + random() % 300);
    for (uint32_t i = 0; i < 2; ++i) add(blob.tensor({width}), {width}, {});
    add(blob.constant({width}, constant()), {width}, constant_);
    for (size_t i = 4 + random() % 20; i > 0; --i) random() % 3 == 0 ? add_view() : add_sum();
    // Any value may be an output, even an input, a constant, or a value that is an output already.
    for (int i = 0; i < 4; ++i) outputs.push_back(random() % nodes.size());
  }

  struct Node {
    uint32_t value;
    std::vector<uint32_t> dims;
    std::vector<float> numbers;  // if it is a constant
    size_t a = 0, b = 0;         // sum: a + factor * b; view: of a
    float factor = 0;
  };

  Bytes finish() {
    std::vector<uint32_t> results;
    for (const size_t output : outputs) results.push_back(nodes[output].value);
    return blob.finish({nodes[0].value, nodes[1].value}, results);
  }

  // Returns the numbers of all nodes for these inputs.
  std::vector<std::vector<float>> expected(const std::vector<float> &x, const std::vector<float> &y) const {
    std::vector<std::vector<float>> result = {x, y, nodes[2].numbers};
    for (size_t i = 3; i < nodes.size(); ++i) {
      result.push_back(result[nodes[i].a]);
      for (size_t j = 0; j < width && nodes[i].factor != 0; ++j) {
        result[i][j] += nodes[i].factor * result[nodes[i].b][j];
      }
    }
    return result;
  }

  std::vector<float> numbers() {
    std::vector<float> result(width);
    for (float &one : result) one = static_cast<float>(static_cast<int>(random() % 9) - 4);
    return result;
  }

  std::mt19937 random;
  uint32_t width = 0;
  std::vector<Node> nodes;
  std::vector<size_t> outputs;
  BlobWriter blob;

 private:
  const std::vector<float> &constant() { return constant_ = numbers(); }
  void add(uint32_t value, const std::vector<uint32_t> &dims, const std::vector<float> &data) {
    nodes.push_back({value, dims, data});
  }

  void add_view() {
    const size_t source = random() % nodes.size();
    const std::vector<uint32_t> dims =
        nodes[source].dims.size() == 1 ? std::vector<uint32_t>{2, width / 2} : std::vector<uint32_t>{width};
    nodes.push_back({blob.view(nodes[source].value, dims), dims, {}, source, 0, 0});
  }

  void add_sum() {
    const size_t a = random() % nodes.size();
    std::vector<size_t> fitting;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].dims == nodes[a].dims) fitting.push_back(i);
    }
    const size_t b = fitting[random() % fitting.size()];
    const float factor = random() % 2 == 0 ? 1 : -1;
    const uint32_t alpha = blob.number(factor), result = blob.tensor(nodes[a].dims);
    blob.call("aten.add.Tensor", {nodes[a].value, nodes[b].value, alpha, result});
    nodes.push_back({result, nodes[a].dims, {}, a, b, factor});
  }

  std::vector<float> constant_;
};

Shape shape_of(const std::vector<uint32_t> &dims) { return {dims.begin(), dims.end()}; }

// Intermediate tensors share memory, and views use the memory of their source. Each result must be right all the same,
// even when the commands are replayed.
TEST_P(DeviceExecution, RandomGraphsComputeWhatTheirSumsAre) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    RandomGraph graph(seed);
    Loaded loaded(device(), graph.finish());
    for (int i = 0; i < 2; ++i) loaded.arguments.add({graph.width});
    for (const size_t output : graph.outputs) loaded.arguments.add(shape_of(graph.nodes[output].dims));
    loaded.prepare();
    for (int run = 0; run < 2; ++run) {
      const std::vector<float> x = graph.numbers(), y = graph.numbers();
      loaded.arguments.set_floats(0, x);
      loaded.arguments.set_floats(1, y);
      loaded.run();
      const std::vector<std::vector<float>> expected = graph.expected(x, y);
      for (size_t i = 0; i < graph.outputs.size(); ++i) {
        EXPECT_EQ(loaded.arguments.floats(2 + i), expected[graph.outputs[i]]) << "seed " << seed << ", output " << i;
      }
    }
  }
}

// y = x[floor(a / b):] for x of four rows.
std::unique_ptr<Loaded> loaded_slice(ShaderDevice &device, int64_t a, int64_t b, bool is_symbolic = true) {
  BlobWriter blob;
  const uint32_t x = blob.tensor({4, 1000}), y = blob.tensor({4, 1000}), zero = blob.integer(0), one = blob.integer(1);
  const uint32_t start = is_symbolic ? blob.symbolic_integer() : blob.integer(0);
  blob.call("floordiv", {blob.integer(a), blob.integer(b), start});
  blob.call("aten.slice_copy.Tensor", {x, zero, start, blob.none(), one, y});
  auto loaded = std::make_unique<Loaded>(device, blob.finish({x}, {y}));
  loaded->arguments.add({4, 1000});
  loaded->arguments.add({4, 1000});
  return loaded;
}

TEST_P(DeviceExecution, SymbolicSizesAreRoundedDown) {
  for (const auto &[a, b, rows] : {std::tuple{3, 2, 3}, {-3, 2, 2}, {3, -2, 2}, {-4, 2, 2}, {-6, -2, 1}}) {
    const std::unique_ptr<Loaded> loaded = loaded_slice(device(), a, b);
    loaded->prepare();
    EXPECT_EQ(loaded->arguments.shape(1), (Shape{rows, 1000})) << a << " // " << b;
  }
}

TEST_P(DeviceExecution, SymbolicSizesThatAreDamagedAreRefused) {
  const auto refused = [&](const std::string &sentence, int64_t a, int64_t b, bool is_symbolic) {
    const std::unique_ptr<Loaded> loaded = loaded_slice(device(), a, b, is_symbolic);
    expect_failure(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, sentence, [&] { loaded->prepare(); });
  };
  refused("operator call 0 (floordiv): it divides by 0", 3, 0, true);
  refused("its operand -9223372036854775808 is out of range", INT64_MIN, -1, true);
  refused("argument 2 is no symbolic integer", 3, 2, false);
}

TEST_P(DeviceExecution, ALateRunFailsWritesNothingAndDoesNotSpoilTheNext) {
  const std::unique_ptr<Loaded> loaded = prepared_doubling(device());
  static PFN_vkWaitForFences wait = nullptr;
  {
    // No wait lasts longer than a microsecond, except a wait for the end of the run.
    const Replaced<PFN_vkWaitForFences> impatient(
        device(), &VolkDeviceTable::vkWaitForFences,
        [](VkDevice owner, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t ns) {
          return wait(owner, count, fences, all, ns == kMinute ? 1000 : ns);
        });
    wait = impatient.original();
    Gate gate(device());
    loaded->start();
    const char *sentence = "waiting for the device: the device did not finish in time";
    expect_failure(EDGECORE_ACCESS_FAILED, sentence, [&] { loaded->execution->finish(); });
    expect_failure(EDGECORE_ACCESS_FAILED, sentence, [&] { loaded->start(); });  // the memory is still in use
    expect_failure(EDGECORE_ACCESS_FAILED, sentence, [&] { loaded->prepare(); });
  }
  loaded->arguments.set_floats(0, std::vector<float>(4000, 3));
  loaded->start();
  EXPECT_EQ(loaded->arguments.floats(1), std::vector<float>(4000, -1));
  loaded->execution->finish();
  EXPECT_EQ(loaded->arguments.floats(1), std::vector<float>(4000, 6));
}

TEST_P(DeviceExecution, TheEndOfAnExecutionWaitsForItsRun) {
  const std::unique_ptr<Loaded> loaded = prepared_doubling(device());
  Gate gate(device());
  loaded->start();
  std::atomic<bool> is_open{false};
  bool has_waited = false;
  std::thread destroyer([&] {
    loaded->execution.reset();
    has_waited = is_open;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a destructor that does not wait would return
  is_open = true;
  gate.open();
  destroyer.join();
  EXPECT_TRUE(has_waited);
}

TEST_P(DeviceExecution, ALostDeviceIsNamedAndTheNextRunIsTried) {
  const std::unique_ptr<Loaded> loaded = prepared_doubling(device());
  {
    const Replaced<PFN_vkQueueSubmit> lost(
        device(), &VolkDeviceTable::vkQueueSubmit,
        [](VkQueue, uint32_t, const VkSubmitInfo *, VkFence) { return VK_ERROR_DEVICE_LOST; });
    expect_failure(EDGECORE_ACCESS_FAILED, "the device was lost", [&] { loaded->run(); });
  }
  loaded->run();
  EXPECT_EQ(loaded->arguments.floats(1), std::vector<float>(4000, 2));
}

TEST_P(DeviceExecution, NoLaterShapeNeedsMoreMemoryForIntermediates) {
  BlobWriter blob;
  const uint32_t x = blob.tensor({64, 64});
  uint32_t y = x;
  for (int i = 0; i < 4; ++i) y = blob.add(y, x, {64, 64});
  Loaded loaded(device(), blob.finish({x}, {y}));
  const auto prepare = [&](int64_t rows) {
    loaded.arguments = {};
    loaded.arguments.add({rows, 64}, std::vector<float>(static_cast<size_t>(rows) * 64, 1));
    loaded.arguments.add({64, 64});
    loaded.prepare();
    EXPECT_EQ(loaded.arguments.shape(1), (Shape{rows, 64}));
    VmaTotalStatistics statistics = {};
    vmaCalculateStatistics(device().allocator(), &statistics);
    return statistics.total.statistics.allocationBytes;
  };
  const VkDeviceSize bytes = prepare(1);
  for (const int64_t rows : {64, 0, 17}) EXPECT_EQ(prepare(rows), bytes) << rows;
  loaded.run();
  EXPECT_EQ(loaded.arguments.floats(1)[17 * 64 - 1], 5);
}

TEST_P(DeviceExecution, ArgumentsThatDoNotFitAreRefused) {
  Loaded loaded(device(), doubling());
  const auto prepare = [&](const std::vector<Shape> &shapes) {
    loaded.arguments = {};
    for (const Shape &shape : shapes) loaded.arguments.add(shape);
    loaded.prepare();
  };
  const auto refused = [&](const std::string &sentence, const std::vector<Shape> &shapes) {
    expect_failure(EDGECORE_INVALID_ARGUMENT, sentence, [&] { prepare(shapes); });
  };
  refused("the delegate has 2 arguments; got 1", {{4, 1000}});
  refused("argument 0 has a shape that the delegate does not allow", {{5, 1000}, {4, 1000}});
  refused("argument 0 has a shape that the delegate does not allow", {{1000}, {4, 1000}});
  prepare({{3, 1000}, {4, 1000}});
}

TEST_P(DeviceExecution, BuffersOfTheDeviceAreUsedWhereTheyAre) {
  Loaded loaded(device(), doubling());
  const backend::Host host(test::host_table(), nullptr);
  edgecore_buffer in(host, shared_device(), 20000), out(host, shared_device(), 20000),
      small(host, shared_device(), 1024);
  const auto run = [&](edgecore_buffer &target, uint64_t offset) {
    loaded.arguments = {};
    loaded.arguments.add({4, 1000}, &in, 512);
    loaded.arguments.add({4, 1000}, &target, offset);
    loaded.prepare();
    loaded.run();
  };
  auto *numbers = static_cast<float *>(map(in, 0, 20000));
  for (int i = 0; i < 5000; ++i) numbers[i] = static_cast<float>(i);
  flush(in);
  run(out, 1024);
  const auto *results = static_cast<const float *>(map(out, 0, 20000));
  invalidate(out);
  for (int i = 0; i < 4000; ++i) ASSERT_EQ(results[256 + i], 2.0f * static_cast<float>(128 + i)) << i;
  for (const auto &[target, offset] :
       {std::pair(&out, uint64_t{128}), std::pair(&out, uint64_t{4096}), std::pair(&small, uint64_t{0})}) {
    expect_failure(EDGECORE_INVALID_ARGUMENT, "argument 1 does not lie in its buffer",
                   [&, place = target, at = offset] { run(*place, at); });
  }
}

}  // namespace
}  // namespace edgecore::vulkan
