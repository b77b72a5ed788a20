// Chooses the next token from logits: penalties, truncations, temperature, and a draw.
#ifndef EDGECORE_LLM_SAMPLER_H_
#define EDGECORE_LLM_SAMPLER_H_

#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore::llm {

// The parameters of sampling. Each default except the temperature's leaves the logits as they are. Names, ranges and
// results are the same as for edgecore_llm.sampler.Sampling in Python.
struct Sampling {
  double temperature = 0;         // logits are divided by it; 0 takes the largest one
  int64_t top_k = 0;              // only the largest remain; 0 for all
  double top_p = 1;               // only the largest whose probabilities sum up to it, with the one that reaches it
  double min_p = 0;               // only those with at least this share of the largest probability
  double repetition_penalty = 1;  // divides positive logits of recent tokens, and multiplies negative ones
  double presence_penalty = 0;    // subtracted from these logits
  double frequency_penalty = 0;   // subtracted from them for each time that the token occurs
  int64_t penalty_window = 64;    // how many of the last tokens count for penalties; 0 for all
  uint64_t seed = 0;              // sequences with equal seeds draw equally
};

// Checks that each value lies in its range. Errors: INVALID_ARGUMENT with the name of the value.
Status check(const Sampling &sampling, Error &error);

// Returns a number in [0, 1) that depends on the seed and the position: the first draw of Philox 4x64.
double uniform(uint64_t seed, uint64_t position);

// Keeps memory between the calls. The draw depends on the seed and the position alone: repeated and rewound sequences
// draw equally, here and in Python.
class Sampler {
 public:
  // Returns the next token. `position` is the new token's, `history` has the tokens before it, for penalties. Tokens
  // from `vocabulary` on, which the tokenizer lacks, are never chosen; 0 for all. Errors: INVALID_ARGUMENT (a logit is
  // not a number).
  Result<int32_t> sample(Span<const float> logits, const Sampling &sampling, uint64_t position,
                         Span<const int32_t> history, size_t vocabulary, Error &error);

 private:
  void penalize(const Sampling &sampling, Span<const int32_t> history);
  void truncate(const Sampling &sampling, double largest);
  void take_largest(size_t count);
  double weight(int32_t token, double largest) const;

  std::vector<float> scores_;
  std::vector<int32_t> tokens_;  // those that remain
  std::vector<double> sums_;     // of the weights of tokens_ up to each of them
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SAMPLER_H_
