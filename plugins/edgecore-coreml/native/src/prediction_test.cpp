// Tests of how often a prediction runs.
#include "prediction.h"

#include <vector>

#include "test_support.h"

namespace edgecore_coreml {
namespace {

// Predictions of an engine that writes into the caller's memory or refuses to.
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

}  // namespace
}  // namespace edgecore_coreml
