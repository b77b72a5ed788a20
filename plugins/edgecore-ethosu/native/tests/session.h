// Blobs, and a host that loads and runs them with the delegate for a device, for its tests and its fuzzer.
#ifndef EDGECORE_ETHOSU_TESTS_SESSION_H_
#define EDGECORE_ETHOSU_TESTS_SESSION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "edgecore/backend.h"

struct edgecore_error {
  int32_t code = EDGECORE_OK;
  std::string text;
};
struct edgecore_scope {
  std::vector<std::string> events;
};

namespace edgecore::ethosu::test {

using Bytes = std::vector<uint8_t>;

struct Tensor {
  std::array<int32_t, 6> shape;
  int32_t element_size, offset;
  int32_t region = 1;
};

constexpr uint32_t set(uint32_t code, uint32_t parameter) { return code | parameter << 16; }
constexpr uint32_t set_long(uint32_t code, uint32_t high = 0) { return code | 1u << 14 | high << 16; }

// The contents of a blob. The defaults are a convolution for an ethos-u55-128 with two inputs and two outputs.
struct Content {
  std::string magic = "COP1";
  uint32_t configuration = 0x1807, id = 0x10066001;
  std::vector<uint32_t> commands = {set(0x10f, 1),     set_long(0x000), 0,                        // input
                                    set(0x11f, 1),     set_long(0x010), 16,                       // output
                                    set(0x128, 0),     set_long(0x020), 16, set_long(0x021), 48,  // weights
                                    set(0x129, 0),     set_long(0x022), 0,  set_long(0x023), 16,  // scales
                                    set(0x002, 0),                                                // convolution
                                    set(0x130, 0),     set_long(0x030), 0,  set_long(0x032), 64,  // copy the weights
                                    set(0x131, 1),     set_long(0x031), 0,  set(0x010, 0),        // to the arena
                                    set(0x000, 0xffff)};
  Bytes weights = Bytes(64, 7);
  int32_t arena = 64;
  // Each output shares its place with the input of the other number: as the stub runs nothing, it has that input's
  // bytes.
  std::vector<Tensor> inputs = {{{1, 1, 1, 1, 2, 3}, 1, 0}, {{1, 1, 1, 1, 1, 4}, 2, 16}};
  std::vector<Tensor> outputs = {{{1, 1, 1, 1, 1, 4}, 2, 16}, {{1, 1, 1, 1, 1, 6}, 1, 0}};
};

// Returns the payload for the driver, or the whole blob.
std::vector<uint32_t> payload_of(const Content &content);
Bytes blob_of(const Content &content);

// Messages of the platform's log, such as the driver's.
extern std::vector<std::string> logged;

// A delegate, which is loaded if `error.code` is EDGECORE_OK.
class Session {
 public:
  // `blob` must be at a multiple of 16 and outlive the session.
  explicit Session(edgecore_bytes blob, const std::string &compatibility = "ethosu-vela 1 ethos-u55-128");
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  // Runs with the bytes of the arguments; `element_sizes` are the sizes of their elements. Returns a code.
  int32_t run(std::vector<Bytes> &arguments, const std::vector<uint8_t> &element_sizes);

  edgecore_error error;
  edgecore_scope scope;
  uint8_t dtype = EDGECORE_DL_INT;          // for all arguments
  uint32_t flags = 0;                       // of the instance
  std::vector<edgecore_memory_need> needs;  // of the last run

 private:
  const edgecore_backend &table_;
  edgecore_driver *driver_ = nullptr;
  edgecore_program *program_ = nullptr;
  edgecore_delegate *delegate_ = nullptr;
};

inline edgecore_bytes view(const Bytes &bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace edgecore::ethosu::test

#endif  // EDGECORE_ETHOSU_TESTS_SESSION_H_
