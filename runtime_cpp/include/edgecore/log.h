// Log messages whose text is not built if the log level hides them.
#ifndef EDGECORE_LOG_H_
#define EDGECORE_LOG_H_

#include "edgecore/platform.h"
#include "edgecore/status.h"

// The log level of this build. The compiler leaves out messages below this level, including their text and code. The
// CMake variable EDGECORE_LOG_LEVEL sets this level for the runtime and its applications.
#ifndef EDGECORE_LOG_LEVEL
#define EDGECORE_LOG_LEVEL EDGECORE_LOG_DEBUG
#endif

// Logs a message that consists of the texts and numbers in order, as in fail():
//   EDGECORE_LOG(EDGECORE_LOG_INFO, "Method '", name, "' has ", count, " delegates.");
#define EDGECORE_LOG(level, ...)                                             \
  do {                                                                       \
    if constexpr ((level) >= EDGECORE_LOG_LEVEL) {                           \
      if ((level) >= edgecore_log_level()) {                                 \
        ::edgecore::Error edgecore_log_text;                                 \
        (void)::edgecore::fail(edgecore_log_text, EDGECORE_OK, __VA_ARGS__); \
        edgecore_log(level, edgecore_log_text.sentence().c());               \
      }                                                                      \
    }                                                                        \
  } while (false)

#endif  // EDGECORE_LOG_H_
