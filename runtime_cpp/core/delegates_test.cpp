// Tests loading, preparing, running and destroying delegates, the memory of delegates, and error messages.
#include "core/sha256.h"
#include "loaded.h"

namespace edgecore {
namespace {

std::vector<uint8_t> bytes_of(const NullBlob &blob) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  return std::vector<uint8_t>(bytes, bytes + sizeof(blob));
}

std::vector<uint8_t> digest_of(const NullBlob &blob) {
  uint8_t digest[32];
  sha256(Bytes(reinterpret_cast<const uint8_t *>(&blob), sizeof(blob)), digest);
  return std::vector<uint8_t>(digest, digest + 32);
}

struct Meta {
  std::vector<PteBuilder::Declared> needs;
  std::string compatibility = "null 1";
  std::vector<uint8_t> sha256 = std::vector<uint8_t>(32);
};

// Builds the program y = delegate(x). x and y have shape [2, 3] and are in the caller's memory.
std::vector<uint8_t> delegate_program(const NullBlob &blob, const Meta *meta = nullptr, bool dynamic = false) {
  PteBuilder pte;
  TensorOptions options;
  if (dynamic) options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  const int32_t x = pte.add_tensor({2, 3}, options), y = pte.add_tensor({2, 3}, options);
  const int32_t delegate = pte.add_delegate("NullBackend", bytes_of(blob));
  pte.delegate(delegate, {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  if (meta != nullptr) pte.add_meta(meta->needs, meta->compatibility, meta->sha256);
  return pte.finish();
}

class Delegate : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(null_backend_live_handles(), 0u); }

  static bool run(Loaded &loaded, std::vector<float> &x, std::vector<float> &y, std::vector<int64_t> shape = {2, 3}) {
    return loaded.set_floats(0, shape, x) && loaded.set_floats_output(0, y) && loaded.execute();
  }

  std::vector<float> x_ = {1, 2, 3, 4, 5, 6}, y_ = std::vector<float>(6);
};

TEST_F(Delegate, IsLoadedRunAndDestroyed) {
  Loaded loaded(delegate_program(NullBlob()));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  EXPECT_EQ(null_backend_live_handles(), 4u);
  ASSERT_TRUE(run(loaded, x_, y_)) << text_of(loaded.error);
  EXPECT_EQ(y_, (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_F(Delegate, IsPreparedAgainOnlyWhenShapesChange) {
  Loaded loaded(delegate_program(NullBlob(), nullptr, true));
  const uint64_t before = null_backend_prepares();
  ASSERT_TRUE(loaded.load_method());
  EXPECT_EQ(null_backend_prepares() - before, 1u);
  ASSERT_TRUE(run(loaded, x_, y_));
  ASSERT_TRUE(run(loaded, x_, y_));
  EXPECT_EQ(null_backend_prepares() - before, 1u);
  ASSERT_TRUE(run(loaded, x_, y_, {1, 3}));
  EXPECT_EQ(loaded.shape(0), (std::vector<int64_t>{1, 3}));
  ASSERT_TRUE(run(loaded, x_, y_, {1, 3}));
  EXPECT_EQ(null_backend_prepares() - before, 2u);
  ASSERT_TRUE(run(loaded, x_, y_, {2, 3}));
  EXPECT_EQ(null_backend_prepares() - before, 3u);
}

TEST_F(Delegate, IsPreparedAgainWhenANumberChanges) {
  NullBlob blob;
  blob.flags = kNullNumber;
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2, 3}), y = pte.add_tensor({2, 3}), number = pte.add_int(0);
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(blob)), {x, y, number});
  pte.inputs = {x, number};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  const uint64_t before = null_backend_prepares();
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  // Loading prepares once and the first run prepares again, with the value 0. Each new value prepares again; the
  // second 3 does not.
  const int64_t values[] = {0, 3, 3, 4};
  const uint64_t prepares[] = {2, 3, 3, 4};
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(loaded.method->set_input(1, values[i], loaded.error).ok()) << text_of(loaded.error);
    ASSERT_TRUE(run(loaded, x_, y_)) << text_of(loaded.error);
    EXPECT_EQ(y_[5], static_cast<float>(12 * values[i]));
    EXPECT_EQ(null_backend_prepares() - before, prepares[i]);
  }
}

TEST_F(Delegate, MissingBackendIsNamed) {
  Loaded loaded(delegate_program(NullBlob()));
  loaded.config.backends = {};
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_NOT_FOUND);
  EXPECT_SENTENCE(loaded, "needs backend 'NullBackend', which is not loaded.");
  const Meta meta;
  Loaded ours(delegate_program(NullBlob(), &meta));
  ours.config.backends = {};
  EXPECT_FALSE(ours.load_method());
  EXPECT_SENTENCE(ours, "made with package edgecore-null.");
}

TEST_F(Delegate, BadBlobAndBadCallAreRefused) {
  NullBlob blob;
  blob.magic[0] = 'X';
  Loaded bad(delegate_program(blob));
  EXPECT_FALSE(bad.load_method());
  EXPECT_EQ(text_of(bad.error),
            "Method 'forward': backend 'NullBackend' refuses delegate 0 (40 bytes): the blob is not one of the null "
            "backend.");
  NullBlob wide;
  wide.inputs = 3;
  Loaded arguments(delegate_program(wide));
  EXPECT_FALSE(arguments.load_method());
  EXPECT_SENTENCE(arguments, "takes 4 arguments, the call passes 2");
}

TEST_F(Delegate, GetsTheMemoryItDeclared) {
  NullBlob blob;
  blob.scratch_bytes = 1000;
  blob.persistent_bytes = 64;
  Meta meta;
  meta.needs = {{fb::meta::MemoryKind::SCRATCH, 1000}, {fb::meta::MemoryKind::PERSISTENT, 64}};
  Loaded loaded(delegate_program(blob, &meta));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  ASSERT_TRUE(run(loaded, x_, y_)) << text_of(loaded.error);
  EXPECT_EQ(loaded.method->delegate_bytes(), 1064u);
  const size_t used = loaded.method_memory.used();
  ASSERT_TRUE(run(loaded, x_, y_));
  EXPECT_EQ(loaded.method_memory.used(), used);

  meta.needs = {{fb::meta::MemoryKind::SCRATCH, 999}, {fb::meta::MemoryKind::PERSISTENT, 64}};
  Loaded greedy(delegate_program(blob, &meta));
  EXPECT_FALSE(greedy.load_method());
  EXPECT_SENTENCE(greedy, "asks for 1000 bytes of scratch memory, but declared 999");
  Loaded own_heap(delegate_program(blob, &meta), {},
                  EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS | EDGECORE_OWN_HEAP);
  EXPECT_TRUE(own_heap.load_method()) << text_of(own_heap.error);
}

TEST_F(Delegate, CompatibilityIsAskedFirst) {
  Meta meta;
  meta.compatibility = "null 2";
  Loaded loaded(delegate_program(NullBlob(), &meta));
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_DELEGATE_INVALID_COMPATIBILITY);
  EXPECT_SENTENCE(loaded, "compiled for 'null 2', does not run on backend 'NullBackend': this backend runs 'null 1'");
}

TEST_F(Delegate, UntrustedBlobsNeedTheirDigest) {
  const uint32_t flags = EDGECORE_NO_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS;
  Loaded foreign(delegate_program(NullBlob()), {}, flags);
  EXPECT_FALSE(foreign.load_method());
  EXPECT_SENTENCE(foreign, "no SHA-256, because the file carries no edgecore metadata");
  foreign.config.trust = true;
  EXPECT_TRUE(foreign.load_method());
  Meta meta;
  Loaded changed(delegate_program(NullBlob(), &meta), {}, flags);
  EXPECT_FALSE(changed.load_method());
  EXPECT_SENTENCE(changed, "does not match the SHA-256");
  meta.sha256 = digest_of(NullBlob());
  Loaded good(delegate_program(NullBlob(), &meta), {}, flags);
  EXPECT_TRUE(good.load_method()) << text_of(good.error);
}

TEST_F(Delegate, BuffersThatDoNotMeetTheRequirementAreCopied) {
  NullBlob blob;
  blob.alignment = 256;
  blob.tail_padding = 64;
  Loaded loaded(delegate_program(blob));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  ASSERT_TRUE(run(loaded, x_, y_)) << text_of(loaded.error);
  EXPECT_EQ(y_, (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_GT(loaded.method->staging_bytes(), 0u);
  const size_t used = loaded.method_memory.used();
  x_[0] = 7;
  ASSERT_TRUE(run(loaded, x_, y_));
  EXPECT_EQ(y_[0], 14);
  EXPECT_EQ(loaded.method_memory.used(), used);
}

TEST_F(Delegate, PaddedBuffersAndPlannedMemoryAreUsedInPlace) {
  NullBlob blob;
  blob.alignment = 64;
  blob.tail_padding = 128;
  PteBuilder pte;
  pte.arenas = {88};
  const int32_t x = pte.add_tensor({2, 3}), y = pte.add_planned({2, 3}, {1, 64}), z = pte.add_planned({2, 3}, {1, 0});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(blob)), {x, y});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(blob)), {y, z});
  pte.inputs = {x};
  pte.outputs = {z};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  alignas(64) float padded[64] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  TensorArgument tensor;
  tensor.data = padded;
  tensor.scalar_type = 6;
  tensor.shape = shape;
  tensor.readable_bytes = sizeof(padded);
  ASSERT_TRUE(loaded.method->set_input(0, tensor, loaded.error).ok());
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(loaded.output(0), (std::vector<float>{4, 8, 12, 16, 20, 24}));
  EXPECT_EQ(loaded.method->staging_bytes(), 0u);
}

TEST_F(Delegate, DoesNotGetReadOnlyMemoryAsOutput) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2});
  const int32_t weights = pte.add_constant({2}, {1, 2});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(NullBlob())), {x, weights});
  pte.inputs = {x};
  Loaded loaded(pte.finish());
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "instruction 0, backend 'NullBackend': an output of shape [2] is a constant or a read-only");
}

TEST_F(Delegate, IsDestroyedWhenASecondDelegateFailsToLoad) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2});
  NullBlob bad;
  bad.magic[0] = 'X';
  pte.add_delegate("NullBackend", bytes_of(NullBlob()));
  pte.add_delegate("NullBackend", bytes_of(bad));
  pte.delegate(0, {x, y});
  Loaded loaded(pte.finish());
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(null_backend_live_handles(), 2u);  // the driver and the program of the NullSession
}

TEST_F(Delegate, TracerSeesPrepareKernelsAndDelegates) {
  class Recorder final : public EventTracer {
   public:
    uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t) override {
      seen += std::to_string(static_cast<int>(kind)) + ":" + std::string(name.data(), name.size()) + "@" +
              std::to_string(instruction) + " ";
      return 0;
    }
    void end(uint64_t) override { seen += "; "; }
    void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) override {
      seen += std::string(name.data(), name.size()) + "#" + std::to_string(debug_id) + " " + std::to_string(begin) +
              "-" + std::to_string(end) + " ";
    }
    std::string seen;
  } recorder;
  Loaded loaded(delegate_program(NullBlob(), nullptr, true));
  loaded.config.tracer = &recorder;
  ASSERT_TRUE(loaded.load_method());
  ASSERT_TRUE(run(loaded, x_, y_, {1, 3}));
  EXPECT_EQ(recorder.seen, "0:forward@0 2:NullBackend@0 3:NullBackend@0 ; multiply#7 10-20 ; ; ");
}

TEST_F(Delegate, ReportsValuesOfOperationsToAListener) {
  class Listener final : public ValueListener {
   public:
    void value(size_t delegate, StringView name, int64_t debug_id, const edgecore_tensor &value) override {
      seen += std::to_string(delegate) + ":" + std::string(name.data(), name.size()) + "#" + std::to_string(debug_id) +
              " " + std::to_string(value.dl.shape[1]) + " ";
    }
    std::string seen;
  } listener;
  Loaded loaded(delegate_program(NullBlob(), nullptr, true));
  loaded.config.values = &listener;
  ASSERT_TRUE(loaded.load_method());
  ASSERT_TRUE(run(loaded, x_, y_, {1, 3}));
  EXPECT_EQ(listener.seen, "0:multiply#7 3 ");
}

}  // namespace
}  // namespace edgecore
