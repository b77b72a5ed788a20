// Chooses the next token from logits: penalties, truncation, temperature, and a random draw.
#ifndef EDGECORE_LLM_SAMPLER_H_
#define EDGECORE_LLM_SAMPLER_H_

#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore::llm {

// The parameters of sampling. All defaults except the temperature's leave the logits unchanged. Names, ranges and
// results are the same as for edgecore_llm.sampler.Sampling in Python.
struct Sampling {
  double temperature = 0;  // divisor of all logits; 0: choose the token with the largest logit
  int64_t top_k = 0;       // number of largest logits to keep; 0: all
  double top_p = 1;  // keep only the most probable tokens: the fewest whose probabilities sum to at least this value
  double min_p = 0;  // keep only tokens whose probability is at least this share of the largest probability
  double repetition_penalty = 1;  // divisor of positive logits, and factor of negative logits, of recent tokens
  double presence_penalty = 0;    // number subtracted once from the logit of each recent token
  double frequency_penalty = 0;   // number subtracted from the logit of a recent token for each of its occurrences
  int64_t penalty_window = 64;    // number of last tokens that penalties consider; 0: all
  uint64_t seed = 0;              // seed of the random numbers: equal seeds give equal numbers
};

// Checks that each parameter is in its range. Errors: INVALID_ARGUMENT with the name of the parameter.
Status check(const Sampling &sampling, Error &error);

// Returns a random number in [0, 1) for the seed and the position: the first number of the generator Philox 4x64.
double uniform(uint64_t seed, uint64_t position);

// Chooses tokens, and keeps its buffers between calls. The random number depends only on the seed and the position: so
// a repeated or rewound sequence gets the same random numbers, in C++ and in Python.
class Sampler {
 public:
  // Returns the next token. `position` is the position of this new token in the sequence; `history` has the tokens
  // before it, for penalties. If `vocabulary`, the tokenizer's number of tokens, is not 0, only tokens below it are
  // chosen. Errors: INVALID_ARGUMENT (a logit is not a number).
  Result<int32_t> sample(Span<const float> logits, const Sampling &sampling, uint64_t position,
                         Span<const int32_t> history, size_t vocabulary, Error &error);

 private:
  void penalize(const Sampling &sampling, Span<const int32_t> history);
  void truncate(const Sampling &sampling, double largest);
  void take_largest(size_t count);
  double weight(int32_t token, double largest) const;

  std::vector<float> scores_;
  std::vector<int32_t> tokens_;  // tokens that passed the filters
  std::vector<double> sums_;     // cumulative weights of tokens_
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SAMPLER_H_
