// Tests the state sets of backends: a state set keeps its content between runs, methods can share the set, and after a
// failed run it is unusable until a reset.
#include <cmath>

#include "loaded.h"

namespace edgecore {
namespace {

using Floats = std::vector<float>;

// Builds the program y = 2 * x + sum, where the backend keeps the sum of the elements of all inputs.
std::vector<uint8_t> program(uint32_t flags = 0) {
  NullBlob blob;
  blob.flags = kNullState | flags;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  PteBuilder pte;
  const int32_t x = pte.add_tensor({1}), y = pte.add_tensor({1});
  pte.delegate(pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob))), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  return pte.finish();
}

class Ready final : public Completion {
 public:
  void ready() override {}
};

class StateSetTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(null_backend_live_handles(), 0u); }

  bool load(Loaded &loaded) {
    loaded.config.state = &loaded.state;
    return loaded.load_method() && loaded.set_floats(0, {1}, x_) && loaded.set_floats_output(0, y_);
  }

  Floats x_ = {1}, y_ = {0};
};

TEST_F(StateSetTest, IsKeptBetweenRunsUntilAReset) {
  Loaded loaded(program());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (const float expected : {3.f, 4.f, 5.f}) {
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(y_[0], expected);
  }
  ASSERT_TRUE(loaded.state.reset(loaded.error).ok());
  ASSERT_TRUE(loaded.execute());
  EXPECT_EQ(y_[0], 3);
}

TEST_F(StateSetTest, IsMissingWithoutAStore) {
  Loaded loaded(program());
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "refuses delegate 0 (40 bytes): the delegate keeps state, and the host gave no state set.");
}

TEST_F(StateSetTest, IsSharedByMethodsOnRequest) {
  for (const StateSharing sharing : {StateSharing::kAll, StateSharing::kAsFile, StateSharing::kNone}) {
    Loaded loaded(program());
    loaded.config.sharing = sharing;
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    const bool shared = sharing == StateSharing::kAll;  // the file's metadata does not say
    EXPECT_EQ(loaded.method->shares_state(), shared);
    EXPECT_EQ(loaded.state.first_state_set()->method, shared ? StringView() : StringView("forward"));
    EXPECT_EQ(null_backend_live_handles(), 5u);  // driver, program, state set, delegate, instance
  }
}

TEST_F(StateSetTest, AFailedRunMakesItUnusableUntilAReset) {
  for (const uint32_t flags : {0u, kNullPending}) {
    Loaded loaded(program(flags));
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    x_[0] = NAN;
    Ready ready;
    loaded.status = loaded.method->start(ready, loaded.error);
    if (flags == kNullPending) {
      EXPECT_EQ(loaded.status.code(), EDGECORE_PENDING);
      null_backend_drain();
      loaded.status = loaded.method->resume(loaded.error);
    }
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_STATE);
    EXPECT_SENTENCE(loaded, "backend 'NullBackend': the sum is not a number.");
    x_[0] = 1;
    EXPECT_FALSE(loaded.execute());
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_STATE);
    EXPECT_EQ(text_of(loaded.error),
              "The state that the backend 'NullBackend' keeps is undefined, because a run has failed or has not ended: "
              "reset or import it first.");
    ASSERT_TRUE(loaded.state.reset(loaded.error).ok());
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(y_[0], 3);
  }
}

TEST_F(StateSetTest, WithoutTensorsIsUsableAfterAFailedRun) {
  NullBlob blob;
  blob.flags = kNullFails;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  PteBuilder pte;
  const int32_t x = pte.add_tensor({1}), y = pte.add_tensor({1});
  pte.delegate(pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob))), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(loaded.execute());
    EXPECT_SENTENCE(loaded, "backend 'NullBackend': ");  // the backend's own error, not the error about undefined state
  }
}

TEST_F(StateSetTest, ARunThatWasAbandonedMakesItUnusableForOtherMethods) {
  Loaded loaded(program(kNullPending));
  loaded.config.sharing = StateSharing::kAll;
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Ready ready;
  EXPECT_EQ(loaded.method->start(ready, loaded.error).code(), EDGECORE_PENDING);
  loaded.method->destroy();
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);  // another method with the same store
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "a run has failed or has not ended");
  ASSERT_TRUE(loaded.state.reset(loaded.error).ok());
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
}

TEST_F(StateSetTest, AResetThatFailsLeavesItUnusable) {
  static edgecore_backend table;
  table = *null_backend(0);
  table.reset = [](edgecore_state_set *, edgecore_error *) -> int32_t { return EDGECORE_ACCESS_FAILED; };
  LoadedBackend backend;  // declared before `loaded`, whose destructor uses it
  Loaded loaded(program());
  backend = loaded.session.backend();
  backend.table = &table;
  loaded.config.backends = {&backend, 1};
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  EXPECT_EQ(loaded.state.reset(loaded.error).code(), EDGECORE_ACCESS_FAILED);
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_STATE);
}

TEST_F(StateSetTest, ABackendThatCannotMakeOneRefusesTheDelegate) {
  static edgecore_backend table;
  table = *null_backend(0);
  table.state_set_create = [](edgecore_program *, const edgecore_state_set_info *info, edgecore_state_set **,
                              edgecore_error *error) -> int32_t {
    EXPECT_NE(info->scope, nullptr);
    return core_services().fail(error, EDGECORE_OUT_OF_RESOURCES, {"the device is full.", 19});
  };
  LoadedBackend backend;  // declared before `loaded`, whose destructor uses it
  Loaded loaded(program());
  backend = loaded.session.backend();
  backend.table = &table;
  loaded.config.backends = {&backend, 1};
  loaded.config.state = &loaded.state;
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "backend 'NullBackend' refuses delegate 0 (40 bytes): the device is full.");
}

}  // namespace
}  // namespace edgecore
