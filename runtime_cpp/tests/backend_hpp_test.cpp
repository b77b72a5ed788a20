// Tests edgecore/backend.hpp, which implements the C interface of backends by C++ classes. Every exception of these
// classes must reach the C caller as an error code and a message, and no object may leak.
#include <gtest/gtest.h>

#include <stdexcept>

#include "edgecore/backend.hpp"
#include "failure_of.h"

namespace {

using namespace edgecore::backend;

enum class Throw { kNothing, kFailure, kMemory, kException, kNumber };
Throw thrown = Throw::kNothing;
int live = 0;

void maybe_throw() {
  switch (thrown) {
    case Throw::kNothing:
      return;
    case Throw::kFailure:
      fail(EDGECORE_NOT_SUPPORTED, "refused %d", 7);
    case Throw::kMemory:
      throw std::bad_alloc();
    case Throw::kException:
      throw std::runtime_error("broken");
    case Throw::kNumber:
      throw 7;
  }
}

struct Counted {
  Counted() { ++live; }
  ~Counted() { --live; }
  Counted(const Counted &) = delete;
};

struct Driver : Counted {
  explicit Driver(const Host &) { maybe_throw(); }
  static void probe(const Host &) { maybe_throw(); }
  int32_t check_compatibility(std::string_view text) {
    if (text != "toy 1") fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "reads toy 1");
    return EDGECORE_COMPATIBLE_RECOMPILE;
  }
};
struct Program : Counted {
  Program(Driver &, const Host &, const Options &options) : level(options.integer("level", 3)) { maybe_throw(); }
  int64_t level;
};
struct Delegate : Counted {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &) : level(program.level) { maybe_throw(); }
  uint64_t argument_count() const noexcept { return 2; }
  void buffer_requirement(uint64_t index, edgecore_buffer_requirement &out) const noexcept {
    out.alignment = index == 0 ? 64 : 16;
  }
  int64_t level;
};
struct Instance : Counted {
  Instance(Delegate &, const Host &services) : host(services) { maybe_throw(); }
  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    maybe_throw();
    const edgecore_tensor &input = args.tensor(0, EDGECORE_DL_FLOAT, 32, 1);
    args.resize(1, input.dl.shape, 1);
    return {memory_need(EDGECORE_MEMORY_SCRATCH, 128, 64)};
  }
  void execute(const Arguments &args, const Memory &memory) {
    host.parallel_for(3, 1, [](uint64_t, uint64_t, uint32_t) { maybe_throw(); });
    args.data<float>(1)[0] = args.data<float>(0)[0] + *static_cast<float *>(memory[0]);
  }
  Host host;
};

std::string sentence;
int32_t resize_code = EDGECORE_OK;

edgecore_host make_host() {
  edgecore_host host = {};
  host.header = header<edgecore_host>();
  host.fail = [](edgecore_error *, int32_t code, edgecore_str text) -> int32_t {
    sentence = to_view(text);
    return code;
  };
  host.parallel_for = [](edgecore_scope *, uint64_t n, uint64_t, edgecore_loop_fn fn, void *arg, uint32_t) {
    for (uint64_t i = 0; i < n; ++i) fn(arg, i, i + 1, 0);
  };
  host.resize = [](edgecore_scope *, edgecore_tensor *, const int64_t *, int32_t, edgecore_error *) -> int32_t {
    if (resize_code != EDGECORE_OK) sentence = "the host's own words";
    return resize_code;
  };
  host.named_data = [](edgecore_scope *, edgecore_str key, edgecore_bytes *out, edgecore_error *) -> int32_t {
    if (to_view(key) != "weights") return EDGECORE_NOT_FOUND;
    *out = {reinterpret_cast<const uint8_t *>("abc"), 3};
    return EDGECORE_OK;
  };
  return host;
}

class BackendHpp : public ::testing::Test {
 protected:
  void SetUp() override {
    thrown = Throw::kNothing;
    sentence.clear();
    resize_code = EDGECORE_OK;
    level_ = {{to_str("level"), EDGECORE_OPTION_INT, 0, {}}, 0};
    level_.option.value.i = 5;
    program_info_.options = {&level_.option, 1, sizeof(level_), 0};
    ASSERT_EQ(table_.driver_create(&host_, nullptr, &driver_, nullptr), EDGECORE_OK);
    ASSERT_EQ(table_.program_open(driver_, &program_info_, &program_, nullptr), EDGECORE_OK);
    ASSERT_EQ(table_.delegate_load(program_, &delegate_info_, &delegate_, nullptr), EDGECORE_OK);
    ASSERT_EQ(table_.instance_create(delegate_, &instance_info_, &instance_, nullptr), EDGECORE_OK);
    for (int i = 0; i < 2; ++i) {
      tensors_[i].scalar_type = 6;
      tensors_[i].dl = {&numbers_[i], EDGECORE_DEVICE_CPU, 0, 1, {EDGECORE_DL_FLOAT, 32, 1}, &size_, &size_, 0};
      tensors_[i].dim_order = &dim_order_;
      values_[i].tag = EDGECORE_TAG_TENSOR;
      values_[i].as.tensor = &tensors_[i];
    }
  }
  void TearDown() override {
    table_.instance_destroy(instance_);
    table_.delegate_destroy(delegate_);
    table_.program_close(program_);
    table_.driver_destroy(driver_);
    EXPECT_EQ(live, 0);
  }
  int32_t prepare(uint64_t count = 2) {
    return table_.prepare(instance_, values_, count, sizeof(values_[0]), &prepared_, nullptr);
  }
  int32_t execute() { return table_.execute(instance_, &execute_info_, values_, 2, sizeof(values_[0]), nullptr); }

  const edgecore_host host_ = make_host();
  const edgecore_backend table_ =
      make_table<Driver, Program, Delegate, Instance>({"Toy", "edgecore-toy", "1", EDGECORE_NO_THREADS});
  edgecore_driver *driver_ = nullptr;
  edgecore_program *program_ = nullptr;
  edgecore_delegate *delegate_ = nullptr;
  edgecore_instance *instance_ = nullptr;
  edgecore_program_info program_info_ = {};
  edgecore_delegate_info delegate_info_ = {};
  edgecore_instance_info instance_info_ = {};
  struct {
    edgecore_option option;
    uint64_t of_a_later_version;
  } level_ = {};
  float numbers_[2] = {1, 0}, scratch_[32] = {2};
  int64_t size_ = 1;
  uint8_t dim_order_ = 0;
  edgecore_tensor tensors_[2] = {};
  edgecore_value values_[2] = {};
  edgecore_memory_block block_ = {scratch_, sizeof(scratch_)};
  edgecore_execute_info execute_info_ = {header<edgecore_execute_info>(), &block_, 1, nullptr, nullptr};
  edgecore_prepared prepared_ = {};
};

TEST_F(BackendHpp, RunsAndReturnsTheResultsOfTheClasses) {
  EXPECT_EQ(get<Program>(program_).level, 5);
  EXPECT_EQ(table_.argument_count(delegate_), 2u);
  edgecore_buffer_requirement requirement = {};
  table_.buffer_requirement(delegate_, 0, &requirement);
  EXPECT_EQ(requirement.alignment, 64u);
  ASSERT_EQ(prepare(), EDGECORE_OK);
  ASSERT_EQ(prepared_.need_count, 1u);
  EXPECT_EQ(prepared_.needs[0].bytes, 128u);
  ASSERT_EQ(execute(), EDGECORE_OK);
  EXPECT_EQ(numbers_[1], 3);
}

TEST_F(BackendHpp, EveryKindOfExceptionBecomesACodeAndASentence) {
  const struct {
    Throw kind;
    int32_t code;
    const char *text;
  } cases[] = {{Throw::kFailure, EDGECORE_NOT_SUPPORTED, "refused 7"},
               {Throw::kMemory, EDGECORE_MEMORY_ALLOCATION_FAILED, "out of memory"},
               {Throw::kException, EDGECORE_INTERNAL, "broken"},
               {Throw::kNumber, EDGECORE_INTERNAL, "an exception that is no std::exception"}};
  for (const auto &expected : cases) {
    thrown = expected.kind;
    const int before = live;
    edgecore_driver *no_driver = nullptr;
    edgecore_program *no_program = nullptr;
    edgecore_delegate *no_delegate = nullptr;
    edgecore_instance *no_instance = nullptr;
    const auto check = [&](int32_t code) {
      EXPECT_EQ(code, expected.code);
      EXPECT_EQ(sentence, expected.text);
      EXPECT_EQ(live, before);
      sentence.clear();
    };
    check(table_.probe(&host_, nullptr, nullptr));
    check(table_.driver_create(&host_, nullptr, &no_driver, nullptr));
    check(table_.program_open(driver_, &program_info_, &no_program, nullptr));
    check(table_.delegate_load(program_, &delegate_info_, &no_delegate, nullptr));
    check(table_.instance_create(delegate_, &instance_info_, &no_instance, nullptr));
    check(prepare());
    check(execute());  // the exception is thrown in a body of parallel_for
  }
}

TEST_F(BackendHpp, CompatibilityIsAnAnswerOrAReason) {
  EXPECT_EQ(table_.check_compatibility(driver_, to_str("toy 1"), nullptr), EDGECORE_COMPATIBLE_RECOMPILE);
  EXPECT_EQ(table_.check_compatibility(driver_, to_str("toy 2"), nullptr), EDGECORE_INCOMPATIBLE);
  EXPECT_EQ(sentence, "reads toy 1");
}

TEST_F(BackendHpp, ArgumentsAreChecked) {
  EXPECT_EQ(prepare(1), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "1 arguments instead of 2");
  values_[0].tag = EDGECORE_TAG_INT;
  EXPECT_EQ(prepare(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "argument 0 is no tensor");
  values_[0].tag = EDGECORE_TAG_TENSOR;
  tensors_[0].dl.device_type = EDGECORE_DEVICE_EXTENSION;
  EXPECT_EQ(prepare(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "argument 0 must be a tensor in host memory");
  tensors_[0].dl.device_type = EDGECORE_DEVICE_CPU;
  tensors_[0].dl.dtype.bits = 64;
  EXPECT_EQ(prepare(), EDGECORE_INVALID_TYPE);
  tensors_[0].dl.dtype.bits = 32;
  dim_order_ = 1;
  EXPECT_EQ(prepare(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "argument 0 is not contiguous in the order of its dims");
  dim_order_ = 0;
  tensors_[0].dl.ndim = 2;
  EXPECT_EQ(prepare(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "argument 0 has 2 dims instead of 1");
  tensors_[0].dl.ndim = 1;
  EXPECT_EQ(table_.execute(instance_, &execute_info_, values_, 3, sizeof(values_[0]), nullptr),
            EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "3 arguments instead of 2");
  const Arguments arguments(Host(&host_, nullptr), values_, 2, sizeof(values_[0]), nullptr);
  arguments.check_shape(0, {1});
  EXPECT_EQ(failure_of([&] { arguments.check_shape(0, {4}); }), "argument 0 has size 1 in dim 0 instead of 4");
  EXPECT_EQ(failure_of([&] { arguments.value(2); }), "the call has no argument 2");
}

// An instance whose run ends after the table's function `execute` has returned.
struct Slow : Counted {
  Slow(Delegate &, const Host &) {}
  std::vector<edgecore_memory_need> prepare(const Arguments &) { return {}; }
  int32_t run(const edgecore_execute_info &info, const Arguments &) {
    maybe_throw();
    return pending.begin(
        info, [](const PendingRun::Done &done) { done(nullptr); }, [] {});
  }
  PendingRun pending;
};

TEST_F(BackendHpp, RunTakesThePlaceOfExecute) {
  static const edgecore_option_spec options[] = {option("level", EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD, "")};
  const edgecore_backend slow =
      make_table<Driver, Program, Delegate, Slow>({"Toy", "edgecore-toy", "1", EDGECORE_NO_THREADS}, options);
  EXPECT_EQ(slow.options, options);
  EXPECT_EQ(slow.option_count, 1u);
  EXPECT_EQ(slow.option_stride, sizeof(options[0]));
  edgecore_instance *instance = nullptr;
  ASSERT_EQ(slow.instance_create(delegate_, &instance_info_, &instance, nullptr), EDGECORE_OK);
  int32_t code = -1;
  execute_info_.completion_arg = &code;
  execute_info_.completion = [](void *arg, int32_t result, edgecore_str) { *static_cast<int32_t *>(arg) = result; };
  EXPECT_EQ(slow.execute(instance, &execute_info_, values_, 2, sizeof(values_[0]), nullptr), EDGECORE_PENDING);
  EXPECT_EQ(code, EDGECORE_OK);
  thrown = Throw::kFailure;
  EXPECT_EQ(slow.execute(instance, &execute_info_, values_, 2, sizeof(values_[0]), nullptr), EDGECORE_NOT_SUPPORTED);
  EXPECT_EQ(sentence, "refused 7");
  slow.instance_destroy(instance);
}

TEST_F(BackendHpp, NamedDataMayBeMissing) {
  const Host host(&host_, nullptr);
  EXPECT_EQ(host.find_named_data("weights")->size, 3u);
  EXPECT_EQ(host.named_data("weights").size, 3u);
  EXPECT_FALSE(host.find_named_data("other"));
  EXPECT_EQ(failure_of([&] { host.named_data("other"); }),
            "the file holds no data 'other'; if it is in a .ptd file, load that file with the program");
}

TEST_F(BackendHpp, AFailureOfTheHostKeepsTheHostsMessage) {
  resize_code = EDGECORE_OUT_OF_RESOURCES;
  EXPECT_EQ(prepare(), EDGECORE_OUT_OF_RESOURCES);
  EXPECT_EQ(sentence, "the host's own words");
}

// An instance that counts its calls in a buffer of the state set.
struct Counter : Counted {
  Counter(Delegate &, const Host &, const edgecore_instance_info &info)
      : count(static_cast<float *>(state_set<HostState>(info).add("count", 6, {2}, 8, {kInitial, 8}))) {
    state_set<HostState>(info).add("zeros", 6, {}, 4, {nullptr, 0});
  }
  std::vector<edgecore_memory_need> prepare(const Arguments &) { return {}; }
  void execute(const Arguments &, const Memory &) { ++count[1]; }
  static constexpr uint8_t kInitial[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};  // 1, 2
  float *count;
};

class HostStateTest : public BackendHpp {
 protected:
  void SetUp() override {
    BackendHpp::SetUp();
    const edgecore_state_set_info info = {header<edgecore_state_set_info>(), nullptr};
    ASSERT_EQ(counting_.state_set_create(program_, &info, &set_, nullptr), EDGECORE_OK);
    instance_info_.state_set = set_;
  }
  void TearDown() override {
    counting_.state_set_destroy(set_);
    BackendHpp::TearDown();
  }
  std::vector<float> exported() {
    std::vector<float> values(2);
    EXPECT_EQ(counting_.export_state(set_, 0, {values.data(), 8}, nullptr), EDGECORE_OK);
    return values;
  }

  const edgecore_backend counting_ =
      make_table<Driver, Program, Delegate, Counter, HostState>({"Toy", "edgecore-toy", "1", EDGECORE_NO_THREADS});
  edgecore_state_set *set_ = nullptr;
};

TEST_F(HostStateTest, IsSharedResetExportedAndImported) {
  EXPECT_EQ(table_.state_set_create, nullptr);  // make_table without a class for state
  edgecore_instance *instances[2] = {};
  for (edgecore_instance *&instance : instances) {
    ASSERT_EQ(counting_.instance_create(delegate_, &instance_info_, &instance, nullptr), EDGECORE_OK);
  }
  ASSERT_EQ(counting_.state_count(set_), 2u);
  edgecore_state_tensor tensor = {};
  counting_.state_describe(set_, 0, &tensor);
  EXPECT_EQ(to_view(tensor.name), "count");
  EXPECT_EQ(tensor.scalar_type, 6);
  ASSERT_EQ(tensor.ndim, 1);
  EXPECT_EQ(tensor.shape[0], 2);
  EXPECT_EQ(tensor.bytes, 8u);
  for (edgecore_instance *instance : instances) {
    EXPECT_EQ(counting_.execute(instance, &execute_info_, values_, 2, sizeof(values_[0]), nullptr), EDGECORE_OK);
  }
  EXPECT_EQ(exported(), (std::vector<float>{1, 4}));
  EXPECT_EQ(counting_.reset(set_, nullptr), EDGECORE_OK);
  EXPECT_EQ(exported(), (std::vector<float>{1, 2}));
  const float saved[2] = {7, 8};
  EXPECT_EQ(counting_.import_state(set_, 0, {reinterpret_cast<const uint8_t *>(saved), 8}, nullptr), EDGECORE_OK);
  EXPECT_EQ(exported(), (std::vector<float>{7, 8}));
  for (edgecore_instance *instance : instances) counting_.instance_destroy(instance);
}

TEST_F(HostStateTest, RefusesContradictions) {
  HostState &state = get<HostState>(set_);
  const auto code_of = [](const auto &body) {
    try {
      body();
    } catch (const Failure &failure) {
      sentence = failure.text;
      return failure.code;
    }
    return EDGECORE_OK;
  };
  state.add("cache", 6, {2}, 8, {nullptr, 0});
  EXPECT_EQ(code_of([&] { state.add("cache", 6, {3}, 12, {nullptr, 0}); }), EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(sentence, "two delegates give the state 'cache' different dtypes or shapes");
  EXPECT_EQ(code_of([&] { state.add("other", 6, {3}, 12, {Counter::kInitial, 8}); }), EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(sentence, "the initial values of the state 'other' have the wrong size");
  EXPECT_EQ(state.count(), 1u);
  const edgecore_instance_info none = {};
  EXPECT_EQ(code_of([&] { state_set<HostState>(none); }), EDGECORE_INVALID_STATE);
  EXPECT_EQ(sentence,
            "it keeps mutable buffers of the model, and the application has no StateStore (MethodConfig::state)");
}

}  // namespace
