// Tests the whole delegate through its table of functions.
#include <array>
#include <thread>

#include "test_support.h"

struct edgecore_error {
  int32_t code = EDGECORE_OK;
  std::string text;
};
struct edgecore_scope {
  int releases = 0;
};

extern "C" const edgecore_backend *edgecore_backend_v0_qnn(void);

namespace edgecore::qnn {
namespace {

using test::Bytes;
using test::Files;
using test::find_files;

constexpr size_t kElements = 4 * 4 * 8;
using Numbers = std::array<float, kElements>;

const edgecore_backend &table() { return *edgecore_backend_v0_qnn(); }

int32_t host_fail(edgecore_error *error, int32_t code, edgecore_str text) {
  *error = {code, std::string(edgecore::backend::to_view(text))};
  return code;
}

int32_t host_resize(edgecore_scope *, edgecore_tensor *tensor, const int64_t *shape, int32_t rank, edgecore_error *) {
  std::copy(shape, shape + rank, tensor->dl.shape);
  return EDGECORE_OK;
}

const edgecore_host kHost = [] {
  edgecore_host host = {};
  host.header = edgecore::backend::header<edgecore_host>();
  host.fail = host_fail;
  host.resize = host_resize;
  return host;
}();

// One loaded program with one delegate, and instances of it.
class Loaded {
 public:
  Loaded(const Bytes &blob, const std::vector<std::pair<std::string, std::string>> &texts) {
    std::vector<edgecore_option> options;
    for (const auto &[name, value] : texts) {
      edgecore_option option = {};
      option.name = edgecore::backend::to_str(name);
      option.type = EDGECORE_OPTION_STRING;
      option.value.bytes = {reinterpret_cast<const uint8_t *>(value.data()), value.size()};
      options.push_back(option);
    }
    edgecore_program_info program = {edgecore::backend::header<edgecore_program_info>(), &scope, {}};
    program.options = {options.data(), options.size(), sizeof(edgecore_option), 0};
    edgecore_delegate_info delegate = {};
    delegate.header = edgecore::backend::header<edgecore_delegate_info>();
    delegate.scope = &scope;
    delegate.blob = test::view(blob);
    delegate.release_blob = [](edgecore_scope *owner) { ++owner->releases; };
    const bool is_open = table().driver_create(&kHost, &scope, &driver_, &error) == EDGECORE_OK &&
                         table().program_open(driver_, &program, &program_, &error) == EDGECORE_OK;
    if (is_open) table().delegate_load(program_, &delegate, &delegate_, &error);
  }
  ~Loaded() {
    if (delegate_ != nullptr) table().delegate_destroy(delegate_);
    if (program_ != nullptr) table().program_close(program_);
    if (driver_ != nullptr) table().driver_destroy(driver_);
  }
  Loaded(const Loaded &) = delete;
  Loaded &operator=(const Loaded &) = delete;

  // Runs a new instance `runs` times. Returns the code of the last call.
  int32_t run(Numbers &in, Numbers &out, int runs) {
    edgecore_error failed;
    edgecore_instance *instance = nullptr;
    const edgecore_instance_info info = {edgecore::backend::header<edgecore_instance_info>(), &scope, 0, 0, nullptr};
    int32_t code = table().instance_create(delegate_, &info, &instance, &failed);
    std::array<int64_t, 4> shape = {1, 4, 4, 8}, output_shape = shape;
    std::array<uint8_t, 4> order = {0, 1, 2, 3};
    std::array<edgecore_tensor, 2> tensors = {};
    std::array<edgecore_value, 2> values = {};
    for (size_t i = 0; i < 2; ++i) {
      edgecore_tensor &tensor = tensors[i];
      tensor.header = edgecore::backend::header<edgecore_tensor>();
      tensor.dl.data = i == 0 ? in.data() : out.data();
      tensor.dl.device_type = EDGECORE_DEVICE_CPU;
      tensor.dl.ndim = 4;
      tensor.dl.dtype = {EDGECORE_DL_FLOAT, 32, 1};
      tensor.dl.shape = i == 0 ? shape.data() : output_shape.data();
      tensor.dim_order = order.data();
      values[i].tag = EDGECORE_TAG_TENSOR;
      values[i].as.tensor = &tensor;
    }
    edgecore_prepared prepared = {};
    prepared.header = edgecore::backend::header<edgecore_prepared>();
    if (code == EDGECORE_OK) {
      code = table().prepare(instance, values.data(), 2, sizeof(edgecore_value), &prepared, &failed);
    }
    edgecore_execute_info execute = {};
    execute.header = edgecore::backend::header<edgecore_execute_info>();
    for (int i = 0; i < runs && code == EDGECORE_OK; ++i) {
      code = table().execute(instance, &execute, values.data(), 2, sizeof(edgecore_value), &failed);
    }
    if (instance != nullptr) table().instance_destroy(instance);
    return code;
  }

  edgecore_scope scope;
  edgecore_error error;

 private:
  edgecore_driver *driver_ = nullptr;
  edgecore_program *program_ = nullptr;
  edgecore_delegate *delegate_ = nullptr;
};

std::unique_ptr<Loaded> load(const Files &files) {
  return std::make_unique<Loaded>(
      files.blob, std::vector<std::pair<std::string, std::string>>{
                      {"onnxruntime", files.ort}, {"provider", files.provider}, {"sdk_version", "99.0.0"}});
}

Numbers make_input(int seed) {
  Numbers numbers = {};
  for (size_t i = 0; i < kElements; ++i) numbers[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 23 - 11);
  return numbers;
}

// The emulator computes with float16 or better, and rounds even the results of relu.
void expect_relu(const Numbers &in, const Numbers &out) {
  for (size_t i = 0; i < kElements; ++i) EXPECT_NEAR(out[i], in[i] < 0 ? 0 : in[i], 1e-2) << i;
}

// A static object of the application. It is destroyed at the end of the process, after the static objects of libraries
// that were opened later. The process must still end without a crash.
std::unique_ptr<Loaded> until_the_end;

TEST(Delegate, MissingLibrariesAreNamed) {
  const Bytes blob = test::small_blob();
  const struct {
    std::vector<std::pair<std::string, std::string>> options;
    int32_t code;
    const char *sentence;
  } rows[] = {
      {{}, EDGECORE_NOT_FOUND, "the load option onnxruntime is missing: pip install onnxruntime onnxruntime-qnn"},
      {{{"onnxruntime", "/x.so"}}, EDGECORE_NOT_FOUND, "the load option provider is missing"},
      {{{"onnxruntime", "x.so"}}, EDGECORE_INVALID_ARGUMENT, "the load option onnxruntime is no absolute path: x.so"},
  };
  for (const auto &row : rows) {
    const Loaded loaded(blob, row.options);
    EXPECT_EQ(loaded.error.code, row.code);
    EXPECT_NE(loaded.error.text.find(row.sentence), std::string::npos) << loaded.error.text;
  }
}

TEST(DeviceDelegate, RunsOnTheMemoryOfTheCaller) {
  Files files;
  if (!find_files(&files)) return;
  const std::unique_ptr<Loaded> loaded = load(files);
  EXPECT_EQ(loaded->error.text, "");
  EXPECT_EQ(loaded->scope.releases, 1);
  for (int seed = 0; seed < 3; ++seed) {
    Numbers in = make_input(seed), out = {};
    ASSERT_EQ(loaded->run(in, out, 2), EDGECORE_OK);
    expect_relu(in, out);
    EXPECT_EQ(in, make_input(seed));
  }
}

TEST(DeviceDelegate, ThreadsRunTwoDelegatesAtTheSameTime) {
  Files files;
  if (!find_files(&files)) return;
  const std::unique_ptr<Loaded> first = load(files), second = load(files);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Numbers in = make_input(t), out = {};
      EXPECT_EQ((t % 2 == 0 ? first : second)->run(in, out, 10), EDGECORE_OK);
      expect_relu(in, out);
    });
  }
  for (std::thread &thread : threads) thread.join();
}

TEST(DeviceDelegate, ADelegateMayOutliveTheLibraries) {
  Files files;
  if (!find_files(&files)) return;
  until_the_end = load(files);
  Numbers in = make_input(0), out = {};
  EXPECT_EQ(until_the_end->run(in, out, 1), EDGECORE_OK);
  expect_relu(in, out);
}

}  // namespace
}  // namespace edgecore::qnn
