// Tests Program::load with valid and damaged files and with limits.
#include "edgecore/program.h"

#include <random>

#include "loaded.h"

namespace edgecore {
namespace {

// Builds a program that scales x [2, 3] by a constant int. The program also has a constant tensor, a mutable buffer, a
// delegate and named data.
PteBuilder full_builder() {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({2, 3});
  const int32_t hidden = pte.add_planned({2, 3}, {1, 0});
  const int32_t factor = pte.add_int(3);
  const int32_t weights = pte.add_constant({2, 3}, {1, 2, 3, 4, 5, 6});
  const int32_t state = pte.add_state({2, 3}, {1, 64}, {6, 5, 4, 3, 2, 1});
  const int32_t all = pte.add_tensor_list({hidden, weights, state});
  const int32_t sum = pte.add_planned({2, 3}, {1, 128});
  const int32_t size = pte.add_int_list({factor, factor});
  const int32_t out = pte.add_tensor({2, 3});
  const int32_t truth = pte.add_bool(true);
  (void)size;
  const int32_t scale = pte.add_operator("test::scale", "out");
  const int32_t add = pte.add_operator("test::sum", "out");
  NullBlob blob;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  const int32_t delegate = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  pte.kernel(scale, {x, factor, hidden, hidden});
  pte.kernel(add, {all, sum, sum});
  pte.jump_false(truth, 4);
  pte.delegate(delegate, {sum, out});
  pte.add_named_data("weights", {1, 2, 3});
  pte.inputs = {x};
  pte.outputs = {out};
  return pte;
}

TEST(Program, DescribesItsMethods) {
  Loaded loaded(full_builder().finish());
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  const Program &program = *loaded.program;
  ASSERT_EQ(program.method_count(), 1u);
  const MethodInfo method = program.method(0);
  EXPECT_TRUE(method.name() == "forward");
  ASSERT_EQ(method.input_count(), 1u);
  const ValueInfo input = method.input(0);
  EXPECT_EQ(input.tag, EDGECORE_TAG_TENSOR);
  EXPECT_EQ(input.tensor.scalar_type, 6);
  EXPECT_EQ(input.tensor.sizes.size(), 2u);
  EXPECT_EQ(input.tensor.bytes, 24u);
  EXPECT_FALSE(input.tensor.planned);
  EXPECT_EQ(method.arena_count(), 1u);
  EXPECT_EQ(method.arena_bytes(0), 256u);
  EXPECT_EQ(method.operator_count(), 2u);
  EXPECT_TRUE(method.operator_name(1).name == "test::sum");
  EXPECT_EQ(method.instruction_count(), 4u);
  ASSERT_EQ(method.delegate_count(), 1u);
  EXPECT_TRUE(method.delegate(0).backend_id == "NullBackend");
  EXPECT_EQ(method.delegate(0).blob_bytes, sizeof(NullBlob));
  EXPECT_FALSE(program.has_meta());
  const Result<Bytes> data = program.named_data("weights", loaded.error);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ((*data).size(), 3u);
  EXPECT_EQ((*data)[2], 3);
  EXPECT_EQ(program.named_data("none", loaded.error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_SENTENCE(loaded, "'none'");
}

TEST(Program, RunsAfterTheBytesOfItsProgramPartChange) {
  const std::vector<uint8_t> bytes = full_builder().finish();
  Loaded loaded(bytes);
  ASSERT_TRUE(loaded.status.ok());
  uint64_t program_size;
  memcpy(&program_size, bytes.data() + 16, 8);
  memset(const_cast<uint8_t *>(loaded.file.view().data()), 0xff, static_cast<size_t>(program_size));
  EXPECT_TRUE(loaded.load_method()) << text_of(loaded.error);
}

TEST(Program, TablesInFlashAreNotCopied) {
  const std::vector<uint8_t> bytes = full_builder().finish();
  uint64_t program_size;
  memcpy(&program_size, bytes.data() + 16, 8);
  alignas(64) static uint8_t flash[1 << 14];
  ASSERT_LE(bytes.size(), sizeof(flash));
  memcpy(flash, bytes.data(), bytes.size());
  size_t used[2];
  for (const bool in_place : {false, true}) {
    HeapAllocator allocator;
    BufferDataLoader loader(Bytes(flash, bytes.size()));
    ProgramConfig config;
    config.allocator = &allocator;
    config.tables_in_place = in_place;
    Error error;
    const Result<const Program *> program = Program::load(loader, config, error);
    ASSERT_TRUE(program.ok()) << text_of(error);
    EXPECT_EQ((*program)->method(0).operator_count(), 2u);
    used[in_place] = allocator.used();
  }
  EXPECT_EQ(used[0], used[1] + program_size + kArenaTail);
}

TEST(Program, NamesAllMethodsWhenOneIsMissing) {
  Loaded loaded(full_builder().finish());
  EXPECT_EQ(loaded.program->find_method("backward", loaded.error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_EQ(text_of(loaded.error), "The program has no method 'backward'; it has 'forward'.");
}

TEST(Program, RefusesOtherFiles) {
  Loaded empty({});
  EXPECT_EQ(empty.status.code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_SENTENCE(empty, "This is not a .pte file: 0 bytes");
  const std::string zip = "PK\x03\x04 this is a zip archive, not a program";
  Loaded other(std::vector<uint8_t>(zip.begin(), zip.end()));
  EXPECT_SENTENCE(other, "not a .pte file");
  std::vector<uint8_t> newer = full_builder().finish();
  newer[7] = '3';
  Loaded version(newer);
  EXPECT_EQ(version.status.code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_SENTENCE(version, "'ET13'; this runtime reads ET12");
}

TEST(Program, RefusesEveryTruncation) {
  const std::vector<uint8_t> file = full_builder().finish();
  for (size_t size = 0; size < file.size(); size += size < 128 ? 1 : 7) {
    Loaded loaded(std::vector<uint8_t>(file.begin(), file.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_FALSE(loaded.status.ok()) << size;
    EXPECT_NE(loaded.error.size, 0u);
  }
  Loaded loaded(std::vector<uint8_t>(file.begin(), file.end() - 1));
  EXPECT_SENTENCE(loaded, "truncated");
}

TEST(Program, HeaderFieldsAreChecked) {
  const std::vector<uint8_t> file = full_builder().finish();
  for (const size_t offset : {size_t{12}, size_t{16}, size_t{24}, size_t{32}}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 100}) {
      std::vector<uint8_t> bytes = file;
      memcpy(bytes.data() + offset, &value, offset == 12 ? 4 : 8);
      Loaded loaded(bytes);
      EXPECT_FALSE(loaded.status.ok()) << offset << " " << value;
    }
  }
}

// If the only segment of a program is empty, ExecuTorch writes the file without an extended header.
TEST(Program, AnEmptySegmentNeedsNoHeader) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{4}}) {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<fb::Chain>> chains = {fb::CreateChainDirect(builder)};
    std::vector<flatbuffers::Offset<fb::ExecutionPlan>> plans = {
        fb::CreateExecutionPlanDirect(builder, "forward", 0, nullptr, nullptr, nullptr, &chains)};
    std::vector<flatbuffers::Offset<fb::DataSegment>> segments = {fb::CreateDataSegment(builder, 0, size)};
    fb::FinishProgramBuffer(builder, fb::CreateProgramDirect(builder, 0, &plans, nullptr, nullptr, &segments));
    Loaded loaded(std::vector<uint8_t>(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()));
    EXPECT_EQ(loaded.status.ok(), size == 0) << text_of(loaded.error);
    EXPECT_EQ(size == 0 && loaded.load_method() && loaded.execute(), size == 0) << text_of(loaded.error);
  }
}

struct Broken {
  const char *part;  // a part of the error message
  void (*change)(PteBuilder &pte);
};

class BrokenProgram : public testing::TestWithParam<Broken> {};

TEST_P(BrokenProgram, IsRefusedWithASentence) {
  PteBuilder pte = full_builder();
  GetParam().change(pte);
  Loaded loaded(pte.finish());
  EXPECT_FALSE(loaded.status.ok());
  EXPECT_SENTENCE(loaded, GetParam().part);
  EXPECT_SENTENCE(loaded, "Method 'forward'");
}

TensorOptions with_order(std::vector<uint8_t> order) {
  TensorOptions options;
  options.dim_order = std::move(order);
  return options;
}

TensorOptions with_type(int type) {
  TensorOptions options;
  options.type = static_cast<fb::ScalarType>(type);
  return options;
}

TensorOptions with_data(uint32_t index) {
  TensorOptions options;
  options.data_index = index;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenProgram,
    testing::Values(Broken{"dim order [0, 0], which is no permutation",
                           [](PteBuilder &p) {
                             p.add_tensor({2, 3}, with_order({0, 0}));
                           }},
                    Broken{"dim order [0, 2]",
                           [](PteBuilder &p) {
                             p.add_tensor({2, 3}, with_order({0, 2}));
                           }},
                    Broken{"2 sizes and 1 entries",
                           [](PteBuilder &p) {
                             p.add_tensor({2, 3}, with_order({0}));
                           }},
                    Broken{"17 sizes", [](PteBuilder &p) { p.add_tensor(std::vector<int32_t>(17, 1)); }},
                    Broken{"negative size",
                           [](PteBuilder &p) {
                             p.add_tensor({2, -3});
                           }},
                    Broken{"tensor_bytes",
                           [](PteBuilder &p) {
                             p.add_tensor({1 << 30, 1 << 30, 1 << 30});
                           }},
                    Broken{"tensor_bytes",
                           [](PteBuilder &p) {
                             p.add_tensor({1 << 30, 1 << 30, 0});
                           }},
                    Broken{"unknown element type 18", [](PteBuilder &p) { p.add_tensor({1}, with_type(18)); }},
                    Broken{"planned at offset 250 of memory 1",
                           [](PteBuilder &p) {
                             p.add_planned({2}, {1, 250});
                           }},
                    Broken{"planned at offset 252 of memory 1",
                           [](PteBuilder &p) {
                             p.add_planned({2}, {1, 252});
                           }},
                    Broken{"of memory 2",
                           [](PteBuilder &p) {
                             p.add_planned({2}, {2, 0});
                           }},
                    Broken{"of memory 0",
                           [](PteBuilder &p) {
                             p.add_planned({2}, {0, 0});
                           }},
                    Broken{"offset 18446744073709551612",
                           [](PteBuilder &p) {
                             p.add_planned({2}, {1, UINT64_MAX - 3});
                           }},
                    Broken{"data 9 of 2", [](PteBuilder &p) { p.add_tensor({2}, with_data(9)); }},
                    Broken{"exceed segment", [](PteBuilder &p) { p.add_tensor({7}, with_data(1)); }},
                    Broken{"planned memory 2 has size -5", [](PteBuilder &p) { p.arenas.push_back(-5); }},
                    Broken{"planned_bytes", [](PteBuilder &p) { p.arenas.push_back(int64_t{1} << 40); }},
                    Broken{"input 1 refers to value 99", [](PteBuilder &p) { p.inputs.push_back(99); }},
                    Broken{"output 1 refers to value -1", [](PteBuilder &p) { p.outputs.push_back(-1); }},
                    Broken{"entry 0 of the integer list", [](PteBuilder &p) { p.add_int_list({0}); }},
                    Broken{"entry 1 of the integer list",
                           [](PteBuilder &p) {
                             p.add_int_list({2, int64_t{1} << 40});
                           }},
                    Broken{"entry 0 of the tensor list", [](PteBuilder &p) { p.add_tensor_list({-1}); }},
                    Broken{"entry 0 of the tensor list", [](PteBuilder &p) { p.add_tensor_list({2}); }},
                    Broken{"operator 2, which does not exist", [](PteBuilder &p) { p.kernel(2, {0}); }},
                    Broken{"operator -1, which does not exist", [](PteBuilder &p) { p.kernel(-1, {0}); }},
                    Broken{"value 77, which does not exist", [](PteBuilder &p) { p.kernel(0, {0, 77}); }},
                    Broken{"delegate 1, which does not exist", [](PteBuilder &p) { p.delegate(1, {0, 0}); }},
                    Broken{"value 77, which does not exist", [](PteBuilder &p) { p.delegate(0, {77, 0}); }},
                    Broken{"both must be scalars or both tensors", [](PteBuilder &p) { p.move(0, 2); }},
                    Broken{"both must be scalars or both tensors", [](PteBuilder &p) { p.move(5, 5); }},
                    Broken{"instruction 9, which does not exist", [](PteBuilder &p) { p.jump_false(9, 9); }},
                    Broken{"instruction -1, which does not exist", [](PteBuilder &p) { p.jump_false(9, -1); }},
                    Broken{"tensor value 2, which does not exist", [](PteBuilder &p) { p.free_value(2); }}));

TEST(Program, LimitsAreKept) {
  const std::vector<uint8_t> bytes = full_builder().finish();
  const std::pair<const char *, void (*)(Limits &)> cases[] = {
      {"flatbuffer_bytes", [](Limits &limits) { limits.flatbuffer_bytes = 100; }},
      {"nesting 2", [](Limits &limits) { limits.nesting = 2; }},
      {"tables 5", [](Limits &limits) { limits.tables = 5; }},
      {"the limit methods is 0", [](Limits &limits) { limits.methods = 0; }},
      {"limit items", [](Limits &limits) { limits.items = 5; }},
      {"limit rank 1", [](Limits &limits) { limits.rank = 1; }},
      {"tensor_bytes 8", [](Limits &limits) { limits.tensor_bytes = 8; }},
      {"planned_bytes is 8", [](Limits &limits) { limits.planned_bytes = 8; }},
  };
  for (const auto &entry : cases) {
    Limits limits;
    entry.second(limits);
    Loaded loaded(bytes, limits);
    EXPECT_FALSE(loaded.status.ok());
    EXPECT_SENTENCE(loaded, entry.first);
  }
}

TEST(Program, SaysWhenMemoryIsShort) {
  const std::vector<uint8_t> bytes = full_builder().finish();
  const AlignedBytes file(bytes);
  BufferDataLoader loader(file.view());
  bool loaded = false;
  for (size_t size = 0; !loaded; size += 64) {
    std::vector<uint8_t> memory(size + 64);
    BufferAllocator allocator{MutableBytes(memory.data(), size)};
    ProgramConfig config;
    config.allocator = &allocator;
    Error error;
    const Result<const Program *> program = Program::load(loader, config, error);
    loaded = program.ok();
    EXPECT_TRUE(loaded || program.status().code() == EDGECORE_MEMORY_ALLOCATION_FAILED);
  }
}

// Loading and running a file with random changes must end with a result or an error, never with a crash.
TEST(Program, SurvivesRandomDamage) {
  const std::vector<uint8_t> file = full_builder().finish();
  std::mt19937 random(7);
  size_t ran = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<uint8_t> bytes = file;
    const size_t changes = 1 + random() % 4;
    for (size_t i = 0; i < changes; ++i) {
      uint8_t &byte = bytes[random() % bytes.size()];
      byte = random() % 2 == 0 ? static_cast<uint8_t>(random()) : static_cast<uint8_t>(byte ^ (1u << (random() % 8)));
    }
    Loaded loaded(bytes);
    loaded.config.instruction_limit = 1000;
    std::vector<float> x(6, 1), y(6);
    const bool done = loaded.status.ok() && loaded.load_method() && loaded.set_floats(0, {2, 3}, x) &&
                      loaded.set_floats_output(0, y) && loaded.execute();
    ran += done;
    EXPECT_TRUE(done || loaded.error.size != 0);
  }
  EXPECT_GT(ran, 100u);
}

}  // namespace
}  // namespace edgecore
