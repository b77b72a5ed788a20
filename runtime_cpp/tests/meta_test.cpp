// Names, sizes and hashes of edgecore.meta.v1: what they say, what they refuse, and damaged ones.
#include "core/sha256.h"
#include "file_builder.h"
#include "loaded.h"

namespace edgecore {
namespace {

TensorOptions bounded() {
  TensorOptions options;
  options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  return options;
}

std::vector<uint8_t> digest_of(Bytes data) {
  uint8_t digest[32];
  sha256(data, digest);
  return {digest, digest + 32};
}

// x [b, 3], y [8 s, 3] and z [b + 1] of at most [8, 3], [32, 3] and [9]; b is 4 to 8. The result is 3 x.
PteBuilder three_inputs() {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({8, 3}, bounded());
  const int32_t y = pte.add_tensor({32, 3}, bounded());
  const int32_t z = pte.add_tensor({9}, bounded());
  const int32_t out = pte.add_tensor({8, 3}, bounded());
  pte.kernel(pte.add_operator("test::scale", "out"), {x, pte.add_int(3), out, out});
  pte.inputs = {x, y, z};
  pte.outputs = {out};
  pte.input_metas = {{"x", {{"b", 4, 0}, {"", 3}}}, {"y", {{"8*s", 8, 1, 8}, {"", 3}}}, {"z", {{"b + 1", 5, 0, 1, 1}}}};
  pte.output_metas = {{"logits", {{"b", 4, 0}, {"", 3}}}};
  return pte;
}

std::vector<uint8_t> finished(PteBuilder pte) {
  pte.add_meta({}, "", {});
  return pte.finish();
}

TEST(Meta, NamesInputsOutputsAndDims) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  const MethodInfo info = loaded.program->method(0);
  EXPECT_TRUE(info.input(1).name == "y");
  EXPECT_TRUE(info.output(0).name == "logits");
  const DimInfo rows = info.input_dim(1, 0), columns = info.input_dim(1, 1);
  EXPECT_TRUE(rows.name == "8*s");
  EXPECT_EQ(rows.min, 8);
  EXPECT_EQ(rows.max, 32);
  EXPECT_EQ(rows.multiple, 8);
  EXPECT_TRUE(columns.name.empty());
  EXPECT_EQ(columns.min, 3);
  EXPECT_EQ(columns.max, 3);
  EXPECT_TRUE(info.output_dim(0, 0).name == "b");
  const Result<size_t> found = info.find_input("z", loaded.error);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, 2u);
  EXPECT_EQ(info.find_input("w", loaded.error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_EQ(text_of(loaded.error), "Method 'forward' has no input 'w'; it takes 'x', 'y', 'z'.");
}

TEST(Meta, AFileOfAnotherToolchainHasItsUpperBoundsAlone) {
  Loaded loaded(three_inputs().finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  const MethodInfo info = loaded.program->method(0);
  EXPECT_TRUE(info.input(0).name.empty());
  EXPECT_EQ(info.input_dim(0, 0).min, 0);
  EXPECT_EQ(info.input_dim(0, 0).max, 8);
  EXPECT_FALSE(info.find_input("x", loaded.error).ok());
  EXPECT_SENTENCE(loaded, "the file holds no names of inputs");
  std::vector<float> x(27), y(99), z(9), out(24);
  EXPECT_TRUE(loaded.set_floats(0, {1, 2}, x));
  EXPECT_TRUE(loaded.set_floats(1, {5, 3}, y));
  EXPECT_TRUE(loaded.set_floats(2, {9}, z));
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_FALSE(loaded.set_floats(0, {9, 3}, x));
  EXPECT_SENTENCE(loaded, "Input 0 of method 'forward': dim 0 must be at most 8, got 9 (shape [9, 3]).");
}

TEST(Meta, AWrongSizeIsRefusedWithInputDimAndRange) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200);
  const auto sentence = [&](size_t index, const std::vector<int64_t> &shape) {
    EXPECT_FALSE(loaded.set_floats(index, shape, data));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
    return text_of(loaded.error);
  };
  const std::string x = "Input 'x' (0) of method 'forward'", y = "Input 'y' (1) of method 'forward'";
  EXPECT_EQ(sentence(0, {5, 2}), x + ": dim 1 must be 3, got 2 (shape [5, 2]).");
  EXPECT_EQ(sentence(0, {3, 3}), x + ": dim 0 ('b') must be 4 to 8, got 3 (shape [3, 3]).");
  EXPECT_EQ(sentence(0, {12, 3}), x + ": dim 0 ('b') must be 4 to 8, got 12 (shape [12, 3]).");
  EXPECT_EQ(sentence(0, {5}), x + " must have 2 dims (at most [8, 3]), got shape [5].");
  EXPECT_EQ(sentence(1, {12, 3}), y + ": dim 0 ('8*s') must be 8 to 32 and a multiple of 8, got 12 (shape [12, 3]).");
  EXPECT_EQ(sentence(1, {INT64_MIN, 3}),
            y + ": dim 0 ('8*s') must be 8 to 32 and a multiple of 8, got -9223372036854775808 (shape "
                "[-9223372036854775808, 3]).");
  EXPECT_TRUE(loaded.set_floats(1, {16, 3}, data));
}

TEST(Meta, AMultipleMayHaveAnOffset) {
  PteBuilder pte = three_inputs();
  pte.input_metas[1].dims[0] = {"8*s - 1", 7, 1, 8, -1};
  Loaded loaded(finished(std::move(pte)));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200);
  EXPECT_TRUE(loaded.set_floats(1, {15, 3}, data)) << text_of(loaded.error);
  EXPECT_FALSE(loaded.set_floats(1, {16, 3}, data));
  EXPECT_SENTENCE(loaded, "dim 0 ('8*s - 1') must be 7 to 31 and 7 more than a multiple of 8, got 16");
}

TEST(Meta, DimsOfOneSymbolMustGoTogether) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200), out(24);
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  ASSERT_TRUE(loaded.set_floats(0, {5, 3}, data));
  ASSERT_TRUE(loaded.set_floats(1, {8, 3}, data));
  ASSERT_TRUE(loaded.set_floats(2, {7}, data));
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(loaded.execute());
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
    EXPECT_EQ(
        text_of(loaded.error),
        "Input 'z' (2) of method 'forward': dim 0 ('b + 1') must be 6, because dim 0 ('b') of input 'x' is 5; got "
        "7.");
  }
  ASSERT_TRUE(loaded.set_floats(2, {6}, data));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
  ASSERT_TRUE(loaded.set_floats(0, {8, 3}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "dim 0 ('b + 1') must be 9, because dim 0 ('b') of input 'x' is 8; got 6.");
}

TEST(Meta, ADelegateThatFindsShapesThatDoNotFitIsNoDamagedFile) {
  PteBuilder pte;
  NullBlob blob;
  blob.inputs = 2;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  const int32_t delegate = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  const int32_t x = pte.add_tensor({4}, bounded()), y = pte.add_tensor({4}, bounded());
  const int32_t out = pte.add_tensor({4}, bounded());
  pte.delegate(delegate, {x, y, out});
  pte.inputs = {x, y};
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(4), result(4);
  ASSERT_TRUE(loaded.set_floats_output(0, result));
  ASSERT_TRUE(loaded.set_floats(0, {3}, data));
  ASSERT_TRUE(loaded.set_floats(1, {2}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_SENTENCE(
      loaded, "backend 'NullBackend': argument 1 has another batch. The shapes of the inputs do not fit the program");
  ASSERT_TRUE(loaded.set_floats(1, {3}, data));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
}

TEST(Meta, InputsThatAreNotTheProgramsAreDamage) {
  const auto refused = [](void (*change)(PteBuilder &)) {
    PteBuilder pte = three_inputs();
    change(pte);
    Loaded loaded(finished(std::move(pte)));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_PROGRAM);
    EXPECT_SENTENCE(loaded, "Metadata of method 'forward': its inputs, outputs or their dims are not those of");
  };
  refused([](PteBuilder &pte) { pte.input_metas.pop_back(); });
  refused([](PteBuilder &pte) { pte.output_metas.push_back({"more"}); });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims.pop_back(); });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].min = 9; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].min = -1; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].multiple = 0; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].multiple = INT64_MIN; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].offset = INT64_MIN; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].symbol = 1; });  // 0 comes first
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].symbol = -2; });
  refused([](PteBuilder &pte) {  // an output that is no tensor
    pte.outputs = {pte.add_int(1)};
  });
}

// A constant, initial state, a blob, named data, and a tensor of a data file.
struct Weights {
  PteBuilder pte;
  PtdBuilder data;

  Weights() {
    pte.arenas = {64};
    data.entries = {{"extra", {3}, {11, 12, 13}}, {"unused", {3}, {14, 15, 16}}};
    const int32_t constant = pte.add_constant({2}, {1, 2});
    pte.add_state({2}, {1, 0}, {3, 4});
    const std::vector<uint8_t> blob(64, 7);
    pte.add_delegate("NullBackend", blob);
    pte.outputs = {constant};
    pte.move(constant, constant);
    pte.add_named_data("packed", {1, 2, 3});
    pte.constants_digest = digest_of(pte.constants());
    pte.state_digest = digest_of(pte.state());
    const uint8_t extra[] = {11, 12, 13}, packed[] = {1, 2, 3};
    pte.data_digests = {{"extra", digest_of({extra, sizeof extra})}, {"packed", digest_of({packed, sizeof packed})}};
  }

  // What check_digests says of the files with a bit of the last place changed where `near` occurs.
  std::string check(const std::string &near = "", bool in_data = false) {
    PteBuilder copy = std::move(pte);
    const std::vector<uint8_t> blob(64, 7);
    copy.add_meta({}, "null 1", digest_of({blob.data(), blob.size()}));
    std::vector<uint8_t> file = copy.finish(), ptd = data.finish();
    std::vector<uint8_t> &target = in_data ? ptd : file;
    if (!near.empty()) {
      const std::string text(target.begin(), target.end());
      const size_t at = text.rfind(near);
      EXPECT_NE(at, std::string::npos);
      target[at] ^= 1;
    }
    const AlignedBytes aligned(file), aligned_data(ptd);
    HeapAllocator memory;
    Error error;
    const Result<const DataFile *> loaded = DataFile::load(aligned_data.view(), "m.ptd", &memory, {}, error);
    EXPECT_TRUE(loaded.ok()) << text_of(error);
    const DataFile *files[] = {*loaded};
    ProgramConfig config;
    config.allocator = &memory;
    config.data = files;
    const Result<const Program *> program = Program::load(aligned.view(), config, error);
    EXPECT_TRUE(program.ok()) << text_of(error);
    return (*program)->check_digests(error).ok() ? "" : text_of(error);
  }
};

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
}

TEST(Meta, AFlippedByteOfAnySegmentIsFoundAndNamed) {
  const std::string end = " are not those that were compiled: their SHA-256 is not the one in the metadata.";
  EXPECT_EQ(Weights().check(), "");
  EXPECT_EQ(Weights().check(floats({1, 2})), "The bytes of segment 'constants'" + end);
  EXPECT_EQ(Weights().check(floats({3, 4})), "The bytes of segment 'initial state'" + end);
  EXPECT_EQ(Weights().check(std::string(64, 7)), "The bytes of delegate 'NullBackend'" + end);
  EXPECT_EQ(Weights().check(std::string("\1\2\3")), "The bytes of named data 'packed'" + end);
  EXPECT_EQ(Weights().check("\13\14\15", true), "The bytes of external data 'extra'" + end);
  EXPECT_EQ(Weights().check("\16\17\20", true), "");  // the program does not use it
}

TEST(Meta, DataWithoutAHashCannotBeVerified) {
  Weights weights;
  weights.pte.data_digests.pop_back();
  EXPECT_EQ(
      weights.check(),
      "The file's metadata has no SHA-256 of named data 'packed', so it cannot be verified; compile the model again "
      "with this edgecore.");
  Loaded foreign(three_inputs().finish());
  EXPECT_EQ(foreign.program->check_digests(foreign.error).code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_SENTENCE(foreign, "no SHA-256 of its weights to verify them by: edgecore did not write it");
}

TEST(Meta, ADigestOfAnotherLengthIsDamage) {
  for (size_t place = 0; place < 3; ++place) {
    PteBuilder pte = three_inputs();
    if (place == 0) pte.constants_digest = {1, 2};
    if (place == 1) pte.state_digest = std::vector<uint8_t>(33);
    if (place == 2) pte.data_digests = {{"x", {}}};
    Loaded loaded(finished(std::move(pte)));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_PROGRAM);
    EXPECT_SENTENCE(loaded, "a SHA-256 that is not of 32 bytes, or without a key");
  }
}

}  // namespace
}  // namespace edgecore
