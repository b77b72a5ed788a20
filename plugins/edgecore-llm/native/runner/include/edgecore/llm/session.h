// A sequence of tokens with its caches; `append` and `generate` extend it.
#ifndef EDGECORE_LLM_SESSION_H_
#define EDGECORE_LLM_SESSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "edgecore/llm/model.h"
#include "edgecore/llm/sampler.h"
#include "edgecore/llm/statistics.h"

namespace edgecore::llm {

struct GenerateOptions {
  size_t max_new_tokens = 128;
  Sampling sampling;
  bool ignore_eos = false;  // true: continue to generate after a token that ends a text
  size_t vocabulary = 0;    // number of tokens of the tokenizer; only ids below it are chosen; 0: no limit

  // True: if the context is full, shift it (see Session::shift): drop the oldest tokens after the first `keep`. False:
  // refuse an answer that does not fit into the context.
  bool shifts = false;
  size_t keep = 0;  // number of tokens at the start that a shift keeps; at most half of the context
};

// A callback that receives each token of an answer. It returns false to end the answer.
using TokenFunction = std::function<bool(int32_t token)>;

// A sequence of tokens with its caches, made by Model::new_session. Only `cancel` may be called by several threads.
class Session {
 public:
  Session() = default;

  const Metadata &metadata() const { return *metadata_; }
  // Returns the tokens whose keys and values are in the caches, in order.
  Span<const int32_t> tokens() const { return {tokens_.data(), tokens_.size()}; }
  // Returns how many more tokens fit into the context.
  size_t room() const { return metadata_->context - tokens_.size(); }
  const Statistics &statistics() const { return statistics_; }

  // Appends tokens to the sequence, by calls of the model with at most Metadata::chunk tokens each. Returns the logits
  // [vocabulary] after the last token, which stay valid until the next call. Errors: INVALID_ARGUMENT (there are no
  // tokens, one is outside of the vocabulary, or they do not fit into the context; the sequence does not change), and
  // the errors of a run.
  Result<Span<const float>> append(Span<const int32_t> tokens, Error &error);

  // Appends tokens to the sequence, and sets `logits` to the logits after each of them [tokens, vocabulary]. Errors: as
  // append.
  Status logits(Span<const int32_t> tokens, std::vector<float> &logits, Error &error);

  // Appends `prompt` to the sequence, then generates and appends an answer. The answer ends with a token that ends a
  // text (`on_token` receives this token, too), or earlier by the limits in `options`, by `on_token`, or by `cancel`.
  // Errors: INVALID_ARGUMENT (prompt and answer do not fit into the context, or a value of the sampling is out of
  // range), and the errors of append.
  Status generate(Span<const int32_t> prompt, const GenerateOptions &options, const TokenFunction &on_token,
                  Error &error);

  // Ends the running answer after its current token or prompt.
  void cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }

  // Runs the model once on a token, so that the operating system reads the weights into memory, and removes the token.
  // Changes neither sequence nor statistics. Errors: as append.
  Status warm_up(Error &error);

  // Keeps the first `count` tokens of the sequence. Recomputes the kept tokens if a cache has overwritten positions
  // that they need: layers with a sliding window cache only few positions older than the window (Metadata::rewindable).
  // Errors: INVALID_ARGUMENT (the sequence has fewer tokens).
  Status rewind(size_t count, Error &error);

  // save returns the sequence and its caches as bytes. restore accepts the bytes of any session of the same .pte, also
  // of a session in Python. Errors of restore: INVALID_ARGUMENT (the bytes are not a saved session of this model).
  Status save(std::vector<uint8_t> &saved, Error &error) const;
  Status restore(Bytes saved, Error &error);

  // Drops old tokens after the first `keep`: half of them, or more if `count` new tokens need more room. Recomputes the
  // remaining tokens as in a new session. Errors: INVALID_ARGUMENT (the sequence has fewer tokens than `keep`, or
  // the context has no room for them and `count` more).
  Status shift(size_t keep, size_t count, Error &error);

  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

 private:
  friend class Model;
  Status start(std::shared_ptr<const Metadata> metadata, std::shared_ptr<Module> module, double load_seconds,
               Error &error);
  Status check_tokens(Span<const int32_t> tokens, Error &error) const;
  Status check_ids(Span<const int32_t> tokens, Error &error) const;
  Status take_back_to(size_t count, Error &error);
  Status compute(Span<const int32_t> tokens, std::vector<float> *all, Error &error);
  Status run(Span<const int32_t> part, bool is_last_only, Error &error);

  std::shared_ptr<const Metadata> metadata_;
  std::shared_ptr<Module> module_;
  Method *forward_ = nullptr;
  Span<const float> last_logits_;  // the logits of the last run
  std::vector<int32_t> tokens_;
  // Maximum length of the sequence since the caches were last filled from position 0. Each position up to it has
  // overwritten an older one in the ring buffer of a sliding window, even if the sequence is shorter now.
  size_t written_ = 0;
  uint64_t dropped_ = 0;            // number of tokens that shifts have dropped since the sequence was empty
  std::vector<int64_t> inputs_[3];  // inputs of the model: tokens, positions, rows
  Sampler sampler_;
  Statistics statistics_;
  std::atomic<bool> is_cancelled_{false};
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SESSION_H_
