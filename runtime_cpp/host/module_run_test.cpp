#include <gtest/gtest.h>

#include "edgecore/make_tensor.h"
#include "edgecore/module.h"
#include "error_text.h"
#include "host/heap.h"
#include "pte_builder.h"
#include "toy_kernels.h"

namespace edgecore {
namespace {

// Builds the program y = x * factor, n = a + 1. The methods `forward` and `second` are equal. With `plan`, y is in an
// arena.
std::vector<uint8_t> program(bool plan = false) {
  PteBuilder pte;
  pte.methods = {"forward", "second"};
  if (plan) pte.arenas = {64};
  const int32_t x = pte.add_tensor({2}), factor = pte.add_int(2), a = pte.add_int(0), one = pte.add_int(1);
  const int32_t y = plan ? pte.add_planned({2}, {1, 0}) : pte.add_tensor({2}), n = pte.add_int(0);
  pte.kernel(pte.add_operator("test::scale", "out"), {x, factor, y, y});
  pte.kernel(pte.add_operator("test::add", ""), {a, one, n});
  pte.inputs = {x, factor, a};
  pte.outputs = {y, n};
  return pte.finish();
}

class ModuleRun : public testing::Test {
 protected:
  void open(const std::vector<uint8_t> &bytes) {
    ASSERT_TRUE(module_.open(Bytes(bytes.data(), bytes.size()), error_).ok()) << text_of(error_);
    ASSERT_TRUE(module_.add_kernels(toy_kernels(), error_).ok());
  }
  void SetUp() override { open(program()); }

  std::string forward(const std::vector<Value> &inputs) {
    return module_.forward(inputs, outputs_, error_).ok() ? "" : text_of(error_);
  }
  std::vector<float> floats(size_t output) {
    const Tensor tensor = outputs_[output].tensor();
    const Span<float> values = tensor.values<float>();
    return {values.begin(), values.end()};
  }

  Module module_;
  Error error_;
  std::vector<Value> outputs_;
};

TEST_F(ModuleRun, RunsWithValuesOfAnyKindAndLoadsTheMethodAtFirstUse) {
  EXPECT_FALSE(module_.is_method_loaded("forward"));
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 3, 41}), "");
  EXPECT_EQ(floats(0), (std::vector<float>{3, 6}));
  EXPECT_EQ(*outputs_[1].to_int(error_), 42);
  EXPECT_TRUE(module_.is_method_loaded("forward"));
  EXPECT_FALSE(module_.is_method_loaded("second"));
  EXPECT_FALSE(module_.is_method_loaded("third"));
}

TEST_F(ModuleRun, LoadsOneMethodOrTheOthers) {
  EXPECT_TRUE(module_.load_method("second", {}, error_).ok()) << text_of(error_);
  EXPECT_EQ(module_.load_method("second", {}, error_).code(), EDGECORE_ALREADY_LOADED);
  EXPECT_EQ(text_of(error_), "Method 'second' is loaded already.");
  EXPECT_TRUE(module_.load_methods({}, error_).ok());
  EXPECT_TRUE(module_.is_method_loaded("forward"));
  EXPECT_EQ(module_.load_methods({}, error_).code(), EDGECORE_ALREADY_LOADED);
  EXPECT_EQ(module_.load_method("third", {}, error_).code(), EDGECORE_NOT_FOUND);
  EXPECT_EQ(module_.method_names(), (std::vector<std::string>{"forward", "second"}));
  EXPECT_EQ(module_.method_meta("second", error_)->input_count(), 3U);
  EXPECT_FALSE(module_.method_meta("third", error_).has_value());
}

TEST_F(ModuleRun, ASessionHasTheMethodsThatAreLoaded) {
  ASSERT_TRUE(module_.load_method("second", {}, error_).ok());
  Module session;
  ASSERT_TRUE(module_.new_session(session, error_).ok()) << text_of(error_);
  EXPECT_TRUE(session.is_method_loaded("second"));
  EXPECT_FALSE(session.is_method_loaded("forward"));
  std::vector<uint8_t> state;
  EXPECT_TRUE(session.export_state(state, error_).ok());
  EXPECT_TRUE(session.reset(error_).ok());
}

TEST_F(ModuleRun, InputsThatWereSetStayUntilTheyAreTakenBack) {
  EXPECT_TRUE(module_.set_inputs("forward", {make_tensor({1.0F, 2.0F}), 3, 0}, error_).ok());
  EXPECT_EQ(forward({}), "");
  EXPECT_EQ(floats(0), (std::vector<float>{3, 6}));
  EXPECT_EQ(forward({Value(), 5}), "");  // uses the tensor from set_input, and another factor
  EXPECT_EQ(floats(0), (std::vector<float>{5, 10}));
  EXPECT_TRUE(module_.set_input("forward", 1, 4, error_).ok());
  EXPECT_EQ(forward({}), "");
  EXPECT_EQ(floats(0), (std::vector<float>{4, 8}));
  EXPECT_TRUE(module_.set_input("forward", 0, Value(), error_).ok());
  EXPECT_EQ(forward({}), "Input 0 of method 'forward' has no value: pass it, or call set_input.");
}

TEST_F(ModuleRun, InputsOfACallThatFailedLiveUntilTheNextOne) {
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 3, 0}), "");
  bool freed = false;
  {
    auto *data = new float[2]{5, 6};
    const Tensor x = from_blob(data, {2}, [&](void *memory) {
      freed = true;
      delete[] static_cast<float *>(memory);
    });
    EXPECT_NE(forward({x, "two", 0}), "");
  }
  EXPECT_FALSE(freed);  // the method borrows the memory of its first input
  ASSERT_TRUE(module_.method(0).execute(error_).ok()) << text_of(error_);
  EXPECT_EQ(static_cast<const float *>(module_.method(0).output(0).as.tensor->dl.data)[1], 18.0F);
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 3, 0}), "");
  EXPECT_TRUE(freed);
}

TEST_F(ModuleRun, NamesTheMethodThatIsNotLoaded) {
  std::vector<Tensor> outputs;
  ASSERT_TRUE(module_.load_method("second", {}, error_).ok()) << text_of(error_);
  EXPECT_EQ(module_.run("forward", {}, outputs, error_).code(), EDGECORE_INVALID_STATE);
  EXPECT_EQ(text_of(error_), "Method 'forward' is not loaded: call load_methods or load_method first.");
}

TEST(ClosedModule, SaysThatNoProgramIsOpen) {
  Module module, session;
  Error error;
  std::vector<Tensor> outputs;
  EXPECT_EQ(module.run("forward", {}, outputs, error).code(), EDGECORE_INVALID_STATE);
  EXPECT_EQ(text_of(error), "No program is open: call open first.");
  EXPECT_EQ(module.load_methods({}, error).code(), EDGECORE_INVALID_STATE);
  EXPECT_EQ(module.convert_trace({}, "unused", error).code(), EDGECORE_INVALID_STATE);
  EXPECT_TRUE(module.required_backends().empty());
  EXPECT_TRUE(module.missing_operators().empty());
}

TEST_F(ModuleRun, SaysWhatIsWrongWithAnInput) {
  const Tensor x = ones({2});
  EXPECT_EQ(forward({x, 3, 1, 4}), "Method 'forward' takes 3 inputs; got 4.");
  EXPECT_EQ(forward({1, 3, 1}), "Input 0 of method 'forward' is a tensor, but an int was given.");
  EXPECT_EQ(forward({x, 0.5, 1}), "Input 1 of method 'forward' is an int, but a double was given.");
  EXPECT_EQ(forward({x, "two", 1}),
            "Input 1 of method 'forward' was given a string: a program keeps strings and lists as constants, so it "
            "takes none.");
  EXPECT_EQ(forward({x.view({3}), 3, 1}),
            "Input 0 of method 'forward' is an empty tensor: A tensor of shape [2] cannot be viewed as [3].");
  EXPECT_FALSE(module_.set_input("forward", 3, 1, error_).ok());
  EXPECT_EQ(text_of(error_), "Method 'forward' takes 3 inputs; there is no input 3.");
  EXPECT_FALSE(module_.set_inputs("forward", {x}, error_).ok());
  EXPECT_EQ(text_of(error_), "Method 'forward' takes 3 inputs; got 1.");
  Module closed;
  EXPECT_EQ(closed.forward({}, outputs_, error_).code(), EDGECORE_INVALID_STATE);
  EXPECT_EQ(text_of(error_), "No program is open: call open first.");
  EXPECT_FALSE(closed.is_open());
}

TEST_F(ModuleRun, OutputsCanBeTensorsOfTheCaller) {
  Tensor y = zeros({2});
  EXPECT_TRUE(module_.set_output("forward", 0, y, error_).ok()) << text_of(error_);
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 3, 0}), "");
  EXPECT_EQ(y.values<float>()[1], 6.0F);
  EXPECT_EQ(outputs_[0].tensor().data(), y.data());
  EXPECT_TRUE(module_.set_output("forward", 0, Tensor(), error_).ok());
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 4, 0}), "");
  EXPECT_EQ(y.values<float>()[1], 6.0F);
  EXPECT_EQ(floats(0), (std::vector<float>{4, 8}));
  // A failed tensor is an error; unlike Tensor(), it does not remove the tensor that was set for the output.
  EXPECT_FALSE(module_.set_output("forward", 0, y.view({3}), error_).ok());
  EXPECT_EQ(text_of(error_), "A tensor of shape [2] cannot be viewed as [3].");
  const Tensor gaps = full_strided({2}, {2}, 0);  // the program cannot write strided outputs itself
  EXPECT_FALSE(module_.set_output("forward", 0, zeros({1, 2}), error_).ok());
  EXPECT_EQ(text_of(error_),
            "Output 0 of method 'forward' is float32 of shape [2]; the tensor is float32 of shape [1, 2].");
  EXPECT_FALSE(module_.set_output("forward", 0, zeros({1}), error_).ok());
  EXPECT_EQ(text_of(error_), "Output 0 of method 'forward' needs 8 bytes; the tensor has 4.");
  EXPECT_FALSE(module_.set_output("forward", 1, zeros({1}), error_).ok());
  EXPECT_EQ(text_of(error_), "Output 1 of method 'forward' is an int, not a tensor.");
  EXPECT_FALSE(module_.set_output("forward", 2, zeros({1}), error_).ok());
  EXPECT_EQ(text_of(error_), "Method 'forward' has 2 outputs; there is no output 2.");
  EXPECT_TRUE(module_.set_output("forward", 0, gaps, error_).ok());
  EXPECT_EQ(forward({make_tensor({1.0F, 2.0F}), 5, 0}), "");
  EXPECT_EQ(*gaps.at<float>({1}), 10.0F);
}

TEST(ModuleRunPlanned, AnOutputInAnArenaIsCopiedToTheTensorOfTheCaller) {
  const std::vector<uint8_t> bytes = program(true);
  Module module;
  Error error;
  ASSERT_TRUE(module.open(Bytes(bytes.data(), bytes.size()), error).ok()) << text_of(error);
  ASSERT_TRUE(module.add_kernels(toy_kernels(), error).ok());
  const Tensor y = zeros({2});
  std::vector<Value> outputs;
  ASSERT_TRUE(module.set_output("forward", 0, y, error).ok()) << text_of(error);
  ASSERT_TRUE(module.forward({make_tensor({1.0F, 2.0F}), 3, 0}, outputs, error).ok()) << text_of(error);
  EXPECT_EQ(y.values<float>()[0], 3.0F);
}

class CountingAllocator final : public Allocator {
 public:
  void *allocate(size_t size, size_t alignment) override {
    bytes += size;
    return heap_.allocate(size, alignment);
  }
  size_t bytes = 0;

 private:
  HeapAllocator heap_;
};

class CountingTracer final : public EventTracer {
 public:
  uint64_t begin(EventKind, StringView, uint64_t, int64_t) override { return ++events; }
  void end(uint64_t) override {}
  void add(StringView, int64_t, uint64_t, uint64_t) override {}
  uint64_t events = 0;
};

TEST_F(ModuleRun, UsesTheAllocatorAndTheTracerOfTheApplication) {
  CountingAllocator allocator;
  CountingTracer tracer;
  uint8_t buffer[256];
  BufferAllocator scratch({buffer, sizeof buffer});
  MethodOptions options;
  options.allocator = &allocator;
  options.scratch = &scratch;
  options.tracer = &tracer;
  Module module;
  const std::vector<uint8_t> bytes = program();
  ASSERT_TRUE(module.open(Bytes(bytes.data(), bytes.size()), error_).ok());
  ASSERT_TRUE(module.add_kernels(toy_kernels(), error_).ok());
  ASSERT_TRUE(module.load_method("forward", options, error_).ok()) << text_of(error_);
  EXPECT_GT(allocator.bytes, 0U);
  ASSERT_TRUE(module.forward({ones({2}), 3, 0}, outputs_, error_).ok());
  const uint64_t events = tracer.events;
  EXPECT_GE(events, 3U);
  module.start_trace(TraceLevel::kOperators);  // replaces the application's tracer
  ASSERT_TRUE(module.forward({ones({2}), 3, 0}, outputs_, error_).ok());
  EXPECT_EQ(tracer.events, events);
  module.stop_trace();
  ASSERT_TRUE(module.forward({ones({2}), 3, 0}, outputs_, error_).ok());
  EXPECT_GT(tracer.events, events);
  options.trace = true;
  EXPECT_FALSE(module.load_method("second", options, error_).ok());
  EXPECT_EQ(text_of(error_), "`trace` and `tracer` exclude each other: a method has one tracer.");
}

}  // namespace
}  // namespace edgecore
