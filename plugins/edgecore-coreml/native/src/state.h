// The mutable buffers of a session that Core ML keeps. Core ML has a state for each loaded function, which no other
// function can use, so the values move between the models that use a buffer, and stay where they are while one does.
#ifndef EDGECORE_COREML_STATE_H_
#define EDGECORE_COREML_STATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "blob.h"
#include "model.h"

namespace edgecore::coreml {

// The Core ML session of a delegate instance, and the buffers that it uses: each entry of `states` pairs a buffer's
// index in the state set with the name of the session's state for it.
struct SharedSession {
  explicit SharedSession(std::unique_ptr<Session> made) : session(std::move(made)) {}

  std::unique_ptr<Session> session;
  std::vector<std::pair<size_t, std::string>> states;
};

// A state set, see backend.h.
class State {
 public:
  template <typename Program>
  State(Program &, const edgecore::backend::Host &) {}

  // Adds a buffer unless the set has it, and returns its index. Its initial values are not copied. Throws
  // edgecore::backend::Failure if it has another dtype or shape, or initial values of another size.
  size_t add(const StateInfo &buffer);
  // Brings the values of all buffers that a session uses into its states.
  void give(const std::shared_ptr<SharedSession> &session);

  uint64_t count() const noexcept { return buffers_.size(); }
  void describe(uint64_t index, edgecore_state_tensor &out) const noexcept;
  void reset();
  void export_state(uint64_t index, edgecore_memory_block out);
  void import_state(uint64_t index, edgecore_bytes in);

 private:
  struct Buffer {
    StateInfo info;
    std::vector<uint16_t> values;           // in float16; old if there is a holder
    std::shared_ptr<SharedSession> holder;  // whose state has the values
    std::string state;                      // its name there
  };

  static void take(Buffer &buffer);
  static void fill(Buffer &buffer);

  std::vector<Buffer> buffers_;
};

float to_float(uint16_t half);
uint16_t to_half(float value);  // rounds to the nearest, ties to even

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_STATE_H_
