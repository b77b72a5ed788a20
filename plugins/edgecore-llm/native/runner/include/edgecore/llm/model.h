// A language model in a file that `edgecore llm export` has written.
#ifndef EDGECORE_LLM_MODEL_H_
#define EDGECORE_LLM_MODEL_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "edgecore/module.h"

namespace edgecore::llm {

class Session;
class Tokenizer;

// The metadata that `edgecore llm export` writes into a file.
struct Metadata {
  std::string family;
  size_t context = 0;  // maximum number of positions of a sequence
  size_t chunk = 0;    // maximum number of tokens that one call of the model takes
  size_t vocabulary = 0;
  std::vector<int32_t> eos_ids;  // the tokens that end a text
  int64_t rewindable = -1;       // how many of the last positions can be removed from the caches; -1: all
  std::string text;              // JSON text of the metadata, which contains an identifier of this export
};

// Reads the metadata from their JSON text. Errors: INVALID_PROGRAM (damaged, or of another version).
Status read_metadata(StringView text, Metadata &metadata, Error &error);

struct ModelOptions {
  uint32_t threads = 0;  // number of threads of parallel loops, including the calling one; 0: one per performance core
};

// A loaded file, from which sessions are made. The weights are mapped from the file, once for all sessions.
class Model {
 public:
  // Opens a .pte file. Call open once. Errors: INVALID_PROGRAM (the file has no language model), and the errors of
  // Module.
  Status open(const char *path, const ModelOptions &options, Error &error);

  const Metadata &metadata() const { return *metadata_; }

  // Makes `session` a new, empty sequence with its own caches. The session may outlive the model. Different threads may
  // call new_session, and use different sessions, at the same time. Errors: as Module::new_session.
  Status new_session(Session &session, Error &error);

  // Checks that the tokenizer has no more tokens than the model. Errors: INVALID_ARGUMENT.
  Status check_fit(const Tokenizer &tokenizer, Error &error) const;

 private:
  std::shared_ptr<const Metadata> metadata_;
  std::shared_ptr<Module> module_;
  std::mutex mutex_;
  bool is_used_ = false;  // true: the first session has taken module_ and its caches; later sessions get other modules
  double load_seconds_ = 0;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MODEL_H_
