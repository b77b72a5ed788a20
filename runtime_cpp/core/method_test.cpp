// Tests loading and running methods: values, inputs and outputs, kernels and instructions.
#include "edgecore/method.h"

#include "edgecore/scalar_type.h"
#include "loaded.h"

namespace edgecore {
namespace {

TensorOptions bounded() {
  TensorOptions options;
  options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  return options;
}

TensorOptions boolean() {
  TensorOptions options;
  options.type = fb::ScalarType::BOOL;
  return options;
}

// Builds the program y = 3 x. x has memory in an arena if `planned`, otherwise memory of the caller.
std::vector<uint8_t> scale_program(bool planned, TensorOptions options = {}) {
  PteBuilder pte;
  pte.arenas = {128};
  const int32_t x = planned ? pte.add_planned({2, 3}, {1, 0}, options) : pte.add_tensor({2, 3}, options);
  const int32_t factor = pte.add_int(3);
  const int32_t y = planned ? pte.add_planned({2, 3}, {1, 64}, options) : pte.add_tensor({2, 3}, options);
  pte.kernel(pte.add_operator("test::scale", "out"), {x, factor, y, y});
  pte.inputs = {x};
  pte.outputs = {y};
  return pte.finish();
}

TEST(Method, BorrowsInputsAndWritesIntoGivenOutputs) {
  Loaded loaded(scale_program(false));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  EXPECT_FALSE(loaded.method->input_is_copied(0));
  EXPECT_TRUE(loaded.method->output_needs_memory(0));
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6);
  ASSERT_TRUE(loaded.set_floats(0, {2, 3}, x));
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12, 15, 18}));
  x[0] = 10;  // the method borrows x, so the next run reads the new number
  ASSERT_TRUE(loaded.execute());
  EXPECT_EQ(y[0], 30);
}

TEST(Method, CopiesPlannedInputsWhichMustBeSetEachTime) {
  Loaded loaded(scale_program(true));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  EXPECT_TRUE(loaded.method->input_is_copied(0));
  EXPECT_FALSE(loaded.method->output_needs_memory(0));
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6);
  ASSERT_TRUE(loaded.set_floats(0, {2, 3}, x));
  x[0] = 10;
  ASSERT_TRUE(loaded.execute());
  EXPECT_EQ(loaded.output(0)[0], 3);
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "Input 0 of method 'forward' was not set before this run.");
  EXPECT_FALSE(loaded.set_floats_output(0, y));
  EXPECT_SENTENCE(loaded, "gets its memory from the program");
}

TEST(Method, TakesInputsThatWereWrittenToTheirPlannedMemory) {
  Loaded loaded(scale_program(true));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  auto *memory = static_cast<float *>(loaded.method->planned_input(0));
  ASSERT_NE(memory, nullptr);
  for (const float first : {1.0f, 10.0f}) {
    for (int i = 0; i < 6; ++i) memory[i] = first + static_cast<float>(i);
    const int64_t shape[] = {2, 3};
    TensorArgument input;
    input.data = memory;
    input.scalar_type = ScalarType::kFloat32;
    input.shape = {shape, 2};
    ASSERT_TRUE(loaded.method->set_input(0, input, loaded.error).ok());
    ASSERT_TRUE(loaded.execute());
    EXPECT_EQ(loaded.output(0)[5], 3 * (first + 5));
  }
  Loaded borrowing(scale_program(false));
  ASSERT_TRUE(borrowing.load_method());
  EXPECT_EQ(borrowing.method->planned_input(0), nullptr);
  EXPECT_EQ(loaded.method->planned_input(1), nullptr);
  EXPECT_EQ(loaded.method->planned_input(SIZE_MAX), nullptr);
  EXPECT_FALSE(loaded.method->output_needs_memory(1));
}

TEST(Method, DynamicShapesFollowTheInput) {
  Loaded loaded(scale_program(false, bounded()));
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, y(6);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{1, 2}, {2, 3}, {0, 3}, {2, 1}}) {
    ASSERT_TRUE(loaded.set_floats(0, shape, x));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(loaded.shape(0), shape);
    EXPECT_EQ(loaded.method->output(0).as.tensor->dl.strides[0], shape[1]);
  }
  EXPECT_FALSE(loaded.set_floats(0, {3, 3}, x));
  EXPECT_SENTENCE(loaded, "Input 0 of method 'forward': dim 0 must be at most 2, got 3 (shape [3, 3]).");
}

TEST(Method, WrongInputsAreNamed) {
  Loaded loaded(scale_program(false));
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> x(6), y(5);
  EXPECT_FALSE(loaded.set_floats(1, {2, 3}, x));
  EXPECT_SENTENCE(loaded, "Method 'forward' takes 1 input; there is no input 1.");
  EXPECT_FALSE(loaded.set_floats(0, {3, 2}, x));
  EXPECT_SENTENCE(loaded, "Input 0 of method 'forward': dim 0 must be 2, got 3 (shape [3, 2]).");
  EXPECT_FALSE(loaded.set_floats(0, {6}, x));
  EXPECT_SENTENCE(loaded, "must have 2 dims ([2, 3]), got shape [6].");
  const int64_t shape[] = {2, 3}, strides[] = {1, 2};
  TensorArgument tensor;
  tensor.data = x.data();
  tensor.scalar_type = 7;
  tensor.shape = shape;
  EXPECT_FALSE(loaded.method->set_input(0, tensor, loaded.error).ok());
  EXPECT_SENTENCE(loaded, "must be float32, not float64");
  tensor.scalar_type = 6;
  tensor.strides = strides;
  EXPECT_FALSE(loaded.method->set_input(0, tensor, loaded.error).ok());
  EXPECT_SENTENCE(loaded, "strides [1, 2]; it must be dense in dim order [0, 1]");
  tensor.strides = {};
  tensor.data = reinterpret_cast<uint8_t *>(x.data()) + 1;
  EXPECT_FALSE(loaded.method->set_input(0, tensor, loaded.error).ok());
  EXPECT_SENTENCE(loaded, "not aligned");
  EXPECT_FALSE(loaded.method->set_input(0, int64_t{3}, loaded.error).ok());
  EXPECT_SENTENCE(loaded, "is a tensor, but an int was given");
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "was not set");
  ASSERT_TRUE(loaded.set_floats(0, {2, 3}, x));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "Output 0 of method 'forward' has no memory yet");
  EXPECT_FALSE(loaded.set_floats_output(0, y));
  EXPECT_SENTENCE(loaded, "needs 24 bytes");
}

TEST(Method, OneErrorListsAllMissingKernels) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({1});
  pte.kernel(pte.add_operator("aten::nothing", "out"), {x, x});
  pte.kernel(pte.add_operator("test::scale", "out"), {x, x});
  pte.kernel(pte.add_operator("aten::never", ""), {x, x});
  Loaded loaded(pte.finish());
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_OPERATOR_MISSING);
  EXPECT_SENTENCE(loaded, "needs 2 operators that have no kernel: aten::nothing.out, aten::never.");
}

TEST(Method, ASelectionOfKernelsIsUsedForItsDtypesOnly) {
  edgecore_kernel kernel = {header_of<edgecore_kernel>(), {"test::scale", 11}, {"out", 3}, 0, nullptr};
  kernel.run = [](const edgecore_call *) -> int32_t { return EDGECORE_OK; };
  edgecore_kernel_library library = {header_of<edgecore_kernel_library>(),
                                     {"test", 4},
                                     {"1", 1},
                                     &kernel,
                                     1,
                                     sizeof(edgecore_kernel),
                                     EDGECORE_KERNELS_SELECTED};
  const auto load = [&](uint64_t dtypes, uint32_t flags) {
    kernel.dtypes = dtypes;
    library.flags = flags;
    Loaded loaded(scale_program(false));
    loaded.libraries[0] = &library;
    (void)loaded.load_method();
    return std::string(text_of(loaded.error));
  };
  const uint64_t fp32 = uint64_t{1} << ScalarType::kFloat32, int8 = uint64_t{1} << ScalarType::kInt8;
  EXPECT_EQ(load(fp32, EDGECORE_KERNELS_SELECTED), "");
  EXPECT_EQ(load(int8, 0), "");  // other libraries may list few dtypes
  EXPECT_EQ(
      load(int8, EDGECORE_KERNELS_SELECTED),
      "Method 'forward' calls kernels that were selected without its dtypes: test::scale.out for float32. Name its "
      "file in edgecore_kernels().");
}

TEST(Method, ListEntriesThatASelectionOfKernelsReadsAreBounded) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({1});
  const int32_t list = pte.add_tensor_list(std::vector<int32_t>(100, x));
  const int32_t op = pte.add_operator("test::scale", "out");
  for (int i = 0; i < 200; ++i) pte.kernel(op, {list, x, x});
  pte.inputs = {x};
  Limits limits;
  limits.items = 10000;
  edgecore_kernel_library library = *toy_kernels();
  library.flags = EDGECORE_KERNELS_SELECTED;
  Loaded loaded(pte.finish(), limits);
  loaded.libraries[0] = &library;
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "the arguments of kernels have more than 10000 list entries together (limit items)");
}

TEST(Method, AConstantIsNotWrittenByAKernelThatWritesAnArgument) {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t weight = pte.add_constant({2}, {1, 2}), x = pte.add_tensor({2}), w = pte.add_planned({2}, {1, 0});
  pte.kernel(pte.add_operator("test::assign", "out"), {weight, x, w, w});
  pte.inputs = {x};
  pte.outputs = {w};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> in = {3, 4};
  ASSERT_TRUE(loaded.set_floats(0, {2}, in) && !loaded.execute());
  EXPECT_SENTENCE(loaded, "is a constant or a read-only input, which may not be written");
}

TEST(Method, TwoKernelsOfOneNameAreReported) {
  Loaded loaded(scale_program(false));
  const edgecore_kernel_library *twice[] = {toy_kernels(), toy_kernels()};
  loaded.config.kernels = twice;
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_REGISTRATION_ALREADY_REGISTERED);
  EXPECT_SENTENCE(loaded, "test::scale.out has a kernel in package 'edgecore' and another in 'edgecore'");
}

TEST(Method, IntegersArePassedThroughListsAndKernels) {
  // size = x.shape[0] + 2; out = full([size, 2], 1.5)
  PteBuilder pte;
  const int32_t x = pte.add_tensor({4}, bounded());
  const int32_t size = pte.add_int(0), two = pte.add_int(2), sum = pte.add_int(0);
  const int32_t list = pte.add_int_list({sum, two});
  const int32_t value = pte.add_double(1.5);
  const int32_t out = pte.add_tensor({6, 2}, bounded());
  pte.kernel(pte.add_operator("test::size", ""), {x, size});
  pte.kernel(pte.add_operator("test::add", ""), {size, two, sum});
  pte.kernel(pte.add_operator("test::fill", "out"), {list, value, out, out});
  pte.inputs = {x};
  pte.outputs = {out, sum};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(4), y(12);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (const int64_t n : {3, 1, 4}) {
    ASSERT_TRUE(loaded.set_floats(0, {n}, data));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(loaded.shape(0), (std::vector<int64_t>{n + 2, 2}));
    EXPECT_EQ(loaded.output(0), std::vector<float>(static_cast<size_t>(n + 2) * 2, 1.5f));
    EXPECT_EQ(loaded.method->output(1).as.i, n + 2);
  }
}

TEST(Method, TakesScalarInputsOfTheDeclaredKind) {
  PteBuilder pte;
  const int32_t a = pte.add_int(1), b = pte.add_int(2), sum = pte.add_int(0), unused = pte.add_int(7);
  const int32_t none = pte.add_none();
  const int32_t flag = pte.add_bool(false), number = pte.add_double(0.5);
  pte.kernel(pte.add_operator("test::add", ""), {a, b, sum});
  pte.inputs = {a, unused, none, flag, number};
  pte.outputs = {sum};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  Error &error = loaded.error;
  EXPECT_TRUE(loaded.method->set_input(0, int64_t{40}, error).ok());
  EXPECT_FALSE(loaded.method->set_input(1, int64_t{8}, error).ok());
  EXPECT_SENTENCE(loaded, "Input 1 of method 'forward' was fixed to 7 when the model was exported, not 8.");
  EXPECT_TRUE(loaded.method->set_input(1, int64_t{7}, error).ok());
  EXPECT_TRUE(loaded.method->set_input_none(2, error).ok());
  EXPECT_FALSE(loaded.method->set_input(3, int64_t{2}, error).ok());
  EXPECT_TRUE(loaded.method->set_input(3, int64_t{0}, error).ok());
  EXPECT_FALSE(loaded.method->set_input(4, 0.25, error).ok());
  EXPECT_TRUE(loaded.method->set_input(4, 0.5, error).ok());
  EXPECT_FALSE(loaded.method->set_input(0, 0.5, error).ok());
  EXPECT_SENTENCE(loaded, "is an int, but a double was given");
  ASSERT_TRUE(loaded.execute()) << text_of(error);
  EXPECT_EQ(loaded.method->output(0).as.i, 42);
}

TEST(Method, BranchesJumpAndMoveTensors) {
  // out = x[0] > 0 ? 2 x : 3 x; each branch moves its result into the value `out`
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({2});
  const int32_t condition = pte.add_planned({}, {1, 0}, boolean());
  const int32_t two = pte.add_int(2), three = pte.add_int(3), never = pte.add_bool(false);
  const int32_t twice = pte.add_planned({2}, {1, 64}), thrice = pte.add_planned({2}, {1, 64});
  const int32_t out = pte.add_planned({2}, {1, 128});
  const int32_t scale = pte.add_operator("test::scale", "out");
  pte.kernel(pte.add_operator("test::positive", "out"), {x, condition, condition});
  pte.jump_false(condition, 5);
  pte.kernel(scale, {x, two, twice, twice});
  pte.move(twice, out);
  pte.jump_false(never, 7);
  pte.kernel(scale, {x, three, thrice, thrice});
  pte.move(thrice, out);
  pte.inputs = {x};
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  for (const float first : {1.f, -1.f, 5.f}) {
    std::vector<float> data = {first, 1};
    ASSERT_TRUE(loaded.set_floats(0, {2}, data));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(loaded.output(0)[1], first > 0 ? 2 : 3);
  }
}

TEST(Method, EndlessLoopsEnd) {
  PteBuilder pte;
  const int32_t never = pte.add_bool(false);
  pte.jump_false(never, 0);
  Loaded loaded(pte.finish());
  loaded.config.instruction_limit = 10000;
  ASSERT_TRUE(loaded.load_method());
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_OUT_OF_RESOURCES);
  EXPECT_SENTENCE(loaded, "has not ended after 10000 instructions");
}

TEST(Method, StateIsKeptBetweenRunsAndStartsFromTheFile) {
  PteBuilder pte;
  pte.arenas = {128};
  const int32_t x = pte.add_tensor({2});
  const int32_t state = pte.add_state({2}, {1, 0}, {10, 20});
  const int32_t sum = pte.add_planned({2}, {1, 64});
  const int32_t both = pte.add_tensor_list({x, state});
  pte.kernel(pte.add_operator("test::sum", "out"), {both, sum, sum});
  pte.kernel(pte.add_operator("test::copy_", ""), {state, sum, state});
  pte.inputs = {x};
  pte.outputs = {sum};
  Loaded loaded(pte.finish());
  for (int load = 0; load < 2; ++load) {
    ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
    std::vector<float> data = {1, 2};
    ASSERT_TRUE(loaded.set_floats(0, {2}, data));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(loaded.output(0), (std::vector<float>{11, 22}));
    ASSERT_TRUE(loaded.execute());
    EXPECT_EQ(loaded.output(0), (std::vector<float>{12, 24}));
    loaded.method->destroy();
  }
}

TEST(Method, ConstantsAndBorrowedInputsAreNotWritten) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2});
  const int32_t weights = pte.add_constant({2}, {1, 2});
  const int32_t factor = pte.add_int(2);
  pte.kernel(pte.add_operator("test::scale", "out"), {x, factor, weights, weights});
  pte.inputs = {x};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> data = {1, 2};
  ASSERT_TRUE(loaded.set_floats(0, {2}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "instruction 0, operator test::scale.out: its result, value 1, is a constant");

  PteBuilder in_place;
  const int32_t y = in_place.add_tensor({2});
  const int32_t source = in_place.add_constant({2}, {8, 9});
  in_place.kernel(in_place.add_operator("test::copy_", ""), {y, source, y});
  in_place.inputs = {y};
  Loaded mutating(in_place.finish());
  ASSERT_TRUE(mutating.load_method());
  ASSERT_TRUE(mutating.set_floats(0, {2}, data));
  EXPECT_FALSE(mutating.execute());
  EXPECT_SENTENCE(mutating, "read-only input");
  const int64_t shape[] = {2};
  TensorArgument tensor;
  tensor.data = data.data();
  tensor.scalar_type = 6;
  tensor.shape = shape;
  tensor.writable = true;
  ASSERT_TRUE(mutating.method->set_input(0, tensor, mutating.error).ok());
  ASSERT_TRUE(mutating.execute()) << text_of(mutating.error);
  EXPECT_EQ(data, (std::vector<float>{8, 9}));
}

TEST(Method, ViewsShareMemory) {
  PteBuilder pte;
  pte.arenas = {64};
  const int32_t x = pte.add_planned({2, 3}, {1, 0});
  const int32_t three = pte.add_int(3), two = pte.add_int(2);
  const int32_t size = pte.add_int_list({three, two});
  const int32_t view = pte.add_tensor({3, 2});
  const int32_t out = pte.add_tensor({3, 2});
  pte.kernel(pte.add_operator("executorch_prim::et_view", ""), {x, size, view});
  pte.kernel(pte.add_operator("test::scale", "out"), {view, two, out, out});
  pte.free_value(view);
  pte.inputs = {x};
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data = {1, 2, 3, 4, 5, 6}, y(6);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(loaded.set_floats(0, {2, 3}, data));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(y, (std::vector<float>{2, 4, 6, 8, 10, 12}));
  }
}

TEST(Method, AValueWithoutMemoryIsAnError) {
  PteBuilder pte;
  const int32_t view = pte.add_tensor({3, 2});
  const int32_t two = pte.add_int(2);
  const int32_t out = pte.add_tensor({3, 2});
  pte.kernel(pte.add_operator("test::scale", "out"), {view, two, out, out});
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> y(6);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "argument 0 (value 0) has no memory: the file plans none");
}

TEST(Method, AKernelErrorNamesInstructionAndOperator) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2});
  pte.kernel(pte.add_operator("test::scale", "out"), {x, x, x});
  pte.inputs = {x};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> data(2);
  const int64_t shape[] = {2};
  TensorArgument tensor;
  tensor.data = data.data();
  tensor.scalar_type = 6;
  tensor.shape = shape;
  tensor.writable = true;
  ASSERT_TRUE(loaded.method->set_input(0, tensor, loaded.error).ok());
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(text_of(loaded.error),
            "Method 'forward', instruction 0, operator test::scale.out: expected a tensor, an int and an output.");
}

TEST(Method, ArenasMayComeFromTheCaller) {
  Loaded loaded(scale_program(true));
  alignas(kArenaAlignment) uint8_t memory[128 + kArenaTail];
  const MutableBytes small[] = {MutableBytes(memory, 128)};
  loaded.config.arenas = small;
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "Arena 0 of method 'forward' needs 256 bytes");
  const MutableBytes arenas[] = {MutableBytes(memory)};
  loaded.config.arenas = arenas;
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> x(6, 2);
  ASSERT_TRUE(loaded.set_floats(0, {2, 3}, x));
  ASSERT_TRUE(loaded.execute());
  EXPECT_EQ(loaded.method->output(0).as.tensor->dl.data, memory + 64);
  EXPECT_EQ(loaded.method->planned_bytes(), 128u);
}

TEST(Method, ScratchServesOneCall) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({64});
  const int32_t y = pte.add_tensor({64});
  pte.kernel(pte.add_operator("test::scratch", "out"), {x, y, y});
  pte.inputs = {x};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  alignas(64) uint8_t memory[256];
  BufferAllocator scratch{MutableBytes(memory)};
  loaded.config.scratch = &scratch;
  ASSERT_TRUE(loaded.load_method());
  std::vector<float> data(64, 4), out(64);
  ASSERT_TRUE(loaded.set_floats(0, {64}, data));
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(out, data);
  EXPECT_EQ(scratch.peak(), 256u);
  EXPECT_EQ(scratch.used(), 0u);
}

}  // namespace
}  // namespace edgecore
