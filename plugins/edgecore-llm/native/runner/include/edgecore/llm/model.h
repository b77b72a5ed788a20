// A language model in a file that `edgecore llm export` made.
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

// The facts that the export writes into a file.
struct Metadata {
  std::string family;
  size_t context = 0;  // how many positions a sequence may have
  size_t chunk = 0;    // how many tokens a call computes at most
  size_t vocabulary = 0;
  std::vector<int32_t> eos_ids;  // the tokens that end a text
  int64_t rewindable = -1;       // how many of the last positions the caches can take back; -1 for all
  std::string text;              // the JSON text itself, which has a number of this export
};

// Reads the facts from their JSON text. Errors: INVALID_PROGRAM (damaged, or of another version).
Status read_metadata(StringView text, Metadata &metadata, Error &error);

struct ModelOptions {
  uint32_t threads = 0;  // of parallel loops, the calling thread included; 0: the performance cores
};

// A loaded file, from which sessions are made. The weights are mapped from the file, once for all sessions.
class Model {
 public:
  // Opens a file. Call it once. Errors: INVALID_PROGRAM (the file holds no language model), and those that Module
  // returns.
  Status open(const char *path, const ModelOptions &options, Error &error);

  const Metadata &metadata() const { return *metadata_; }

  // Fills in an empty session, which has caches of its own and may outlive the model. Different threads may call this,
  // and use different sessions, at the same time. Errors: those that Module::new_session returns.
  Status new_session(Session &session, Error &error);

  // Checks that the tokenizer has no more tokens than the model. Errors: INVALID_ARGUMENT.
  Status check_fit(const Tokenizer &tokenizer, Error &error) const;

 private:
  std::shared_ptr<const Metadata> metadata_;
  std::shared_ptr<Module> module_;
  std::mutex mutex_;
  bool is_used_ = false;  // the first session uses the caches of module_
  double load_seconds_ = 0;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MODEL_H_
