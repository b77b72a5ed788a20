// Tests how often a prediction runs.
#include "prediction.h"

#include <vector>

#include "model.h"
#include "test_support.h"

namespace edgecore::coreml {
namespace {

// An engine that writes into the caller's memory, or refuses to.
struct Engine {
  bool takes_memory, works;
  std::vector<bool> runs;

  const char *predict(bool has_states) {
    return predict_once(has_states, [this](bool in_memory) -> const char * {
      runs.push_back(in_memory);
      return works && (takes_memory || !in_memory) ? "results" : nullptr;
    });
  }
};

TEST(Prediction, RunsOnceWithTheCallersMemory) {
  Engine engine{true, true, {}};
  EXPECT_STREQ(engine.predict(false), "results");
  EXPECT_EQ(engine.runs, std::vector<bool>{true});
}

TEST(Prediction, RunsAgainIfTheEngineRefusesTheMemory) {
  Engine engine{false, true, {}};
  EXPECT_STREQ(engine.predict(false), "results");
  EXPECT_EQ(engine.runs, (std::vector<bool>{true, false}));
}

TEST(Prediction, RunsOnceIfItUpdatesStates) {
  for (const bool works : {true, false}) {
    Engine engine{false, works, {}};
    EXPECT_EQ(engine.predict(true) != nullptr, works);
    EXPECT_EQ(engine.runs, std::vector<bool>{false});
  }
}

// By default, `start` predicts before it returns.
TEST(Session, StartPredictsAtOnceByDefault) {
  struct Doubling : Session {
    void predict(const std::vector<Array> &inputs, std::vector<Array> &outputs) override {
      *static_cast<float *>(outputs[0].data) = 2 * *static_cast<float *>(inputs[0].data);
    }
    void read_state(const std::string &, Array) override {}
    void write_state(const std::string &, Array) override {}
  } session;
  float in = 3, out = 0;
  std::vector<Array> inputs = {{Element::kFloat32, {1}, &in}}, outputs = {{Element::kFloat32, {1}, &out}};
  int ends = 0;
  session.start(inputs, outputs, [&](const std::exception_ptr &failure) { ends += failure == nullptr; });
  EXPECT_EQ(out, 6);
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace edgecore::coreml
