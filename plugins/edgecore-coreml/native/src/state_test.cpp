// Tests states: values move between the sessions that use a buffer; conversion to float16.
#include "state.h"

#include <cmath>
#include <cstring>
#include <map>

#include "test_support.h"

namespace edgecore::coreml {
namespace {

using test::expect_failure;

// A session with one state of two elements, to which each prediction adds one.
class Counter : public Session {
 public:
  explicit Counter(int *writes) : writes_(writes) {}
  void predict(const std::vector<Array> &, std::vector<Array> &) override {
    for (uint16_t &value : values) value = to_half(to_float(value) + 1);
  }
  void read_state(const std::string &name, Array out) override {
    EXPECT_EQ(name, "counter_state");
    std::memcpy(out.data, values, sizeof(values));
  }
  void write_state(const std::string &, Array in) override {
    ++*writes_;
    std::memcpy(values, in.data, sizeof(values));
  }

  uint16_t values[2] = {};

 private:
  int *writes_;
};

struct Fixture {
  State state{*this, edgecore::backend::Host(nullptr, nullptr)};
  int writes = 0;
  edgecore_bytes initial = {};

  std::shared_ptr<SharedSession> session(int32_t scalar_type = 6) {
    auto made = std::make_shared<SharedSession>(std::make_unique<Counter>(&writes));
    const size_t index = state.add({"counter", "counter_state", scalar_type, {2}, initial.size != 0, initial});
    made->states.push_back({index, "counter_state"});
    return made;
  }
  void run(const std::shared_ptr<SharedSession> &session) {
    std::vector<Array> outputs;
    state.give(session);
    session->session->predict({}, outputs);
  }
  float exported() {
    float values[2];
    state.export_state(0, {values, sizeof(values)});
    return values[1];
  }
};

TEST(State, ValuesMoveBetweenSessionsAndStayWhileOneUsesThem) {
  Fixture fixture;
  const auto first = fixture.session(), second = fixture.session();
  EXPECT_EQ(fixture.state.count(), 1u);
  fixture.run(first);
  fixture.run(first);
  EXPECT_EQ(fixture.writes, 1);
  fixture.run(second);
  EXPECT_EQ(fixture.writes, 2);
  fixture.run(first);
  EXPECT_EQ(fixture.exported(), 4.0F);
  fixture.run(first);
  EXPECT_EQ(fixture.exported(), 5.0F);
}

TEST(State, ResetAndImportReplaceTheValues) {
  Fixture fixture;
  const auto session = fixture.session();
  fixture.run(session);
  fixture.state.reset();
  EXPECT_EQ(fixture.exported(), 0.0F);
  const float values[2] = {1, 41};
  fixture.state.import_state(0, {reinterpret_cast<const uint8_t *>(values), sizeof(values)});
  fixture.run(session);
  EXPECT_EQ(fixture.exported(), 42.0F);
  edgecore_state_tensor described = {};
  fixture.state.describe(0, described);
  EXPECT_EQ(described.bytes, 8u);
  EXPECT_EQ(described.scalar_type, 6);
}

TEST(State, BuffersStartWithTheirInitialValues) {
  const float values[2] = {1, 40};
  Fixture fixture;
  fixture.initial = {reinterpret_cast<const uint8_t *>(values), sizeof(values)};
  const auto session = fixture.session();
  EXPECT_EQ(fixture.exported(), 40.0F);
  fixture.run(session);
  EXPECT_EQ(fixture.exported(), 41.0F);
  fixture.state.reset();
  fixture.run(session);
  EXPECT_EQ(fixture.exported(), 41.0F);
  Fixture wrong;
  wrong.initial = {reinterpret_cast<const uint8_t *>(values), sizeof(float)};
  expect_failure("the initial values of the state 'counter' have the wrong size", [&] { wrong.session(); });
}

TEST(State, ABufferOfAnotherDtypeIsRefused) {
  Fixture fixture;
  fixture.session();
  expect_failure("different dtypes or shapes", [&] { fixture.session(5); });
}

TEST(Half, EveryNumberSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_half(value))));
    } else {
      ASSERT_EQ(to_half(value), bits);
    }
  }
}

TEST(Half, NumbersAreRoundedToTheNearestEven) {
  EXPECT_EQ(to_half(1.0F), 0x3C00);
  EXPECT_EQ(to_half(1.0F + 1.0F / 2048), 0x3C00);  // a tie, rounds down to even
  EXPECT_EQ(to_half(1.0F + 3.0F / 2048), 0x3C02);  // a tie, rounds up to even
  EXPECT_EQ(to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(to_half(65520.0F), 0x7C00);
  EXPECT_EQ(to_half(-1e9F), 0xFC00);
  EXPECT_EQ(to_half(std::ldexp(1.0F, -25)), 0);
  EXPECT_EQ(to_half(std::ldexp(3.0F, -26)), 1);
}

}  // namespace
}  // namespace edgecore::coreml
