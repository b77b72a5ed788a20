// The mutable buffers of a session, which Core ML keeps as states. In Core ML each loaded function has its own states,
// which no other function can use. So the values of a buffer move to the model that uses the buffer next, and stay
// there until another model uses the buffer.
#ifndef EDGECORE_COREML_STATE_H_
#define EDGECORE_COREML_STATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "blob.h"
#include "model.h"

namespace edgecore::coreml {

// The Core ML session of a delegate instance, and the buffers that it uses. Each entry of `states` has a buffer's index
// in the state set, and the name of the session's state for this buffer.
struct SharedSession {
  explicit SharedSession(std::unique_ptr<Session> made) : session(std::move(made)) {}

  std::unique_ptr<Session> session;
  std::vector<std::pair<size_t, std::string>> states;
};

// The state set (see state_set_create in backend.h) of the buffers that Core ML keeps.
class State {
 public:
  template <typename Program>
  State(Program &, const edgecore::backend::Host &) {}

  // Adds a buffer unless the set has it, and returns its index. Does not copy the initial values. Throws
  // edgecore::backend::Failure if the set has the buffer with another dtype or shape, or if the initial values have the
  // wrong size.
  size_t add(const StateInfo &buffer);
  // Moves the values of all buffers that a session uses to the Core ML states of this session.
  void give(const std::shared_ptr<SharedSession> &session);

  uint64_t count() const noexcept { return buffers_.size(); }
  void describe(uint64_t index, edgecore_state_tensor &out) const noexcept;
  void reset();
  void export_state(uint64_t index, edgecore_memory_block out);
  void import_state(uint64_t index, edgecore_bytes in);

 private:
  struct Buffer {
    StateInfo info;
    std::vector<uint16_t> values;           // the buffer's values in float16; outdated while `holder` is set
    std::shared_ptr<SharedSession> holder;  // the session whose Core ML state has the latest values
    std::string state;                      // name of the holder's Core ML state for this buffer
  };

  static void take(Buffer &buffer);
  static void fill(Buffer &buffer);

  std::vector<Buffer> buffers_;
};

float to_float(uint16_t half);
uint16_t to_half(float value);  // rounds a float32 to float16: to nearest, ties to even

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_STATE_H_
