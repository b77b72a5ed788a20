#include "edgecore/llm/session.h"

#include <algorithm>
#include <chrono>

namespace edgecore::llm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Status Session::start(std::shared_ptr<const Metadata> metadata, std::shared_ptr<Module> module, double load_seconds,
                      Error &error) {
  const Result<size_t> index = module->program().find_method("forward", error);
  EDGECORE_TRY(index.status());
  Method &forward = module->method(*index);
  const MethodInfo info = forward.info();
  bool is_fit = info.input_count() == 3 && info.output_count() == 1 && info.output(0).tag == EDGECORE_TAG_TENSOR;
  is_fit = is_fit && info.output(0).tensor.scalar_type == scalar_type_of<float>();
  if (!is_fit) {
    return fail(error, EDGECORE_INVALID_PROGRAM,
                "The method forward does not compute float32 logits from tokens, positions and rows.");
  }
  EDGECORE_TRY(module->allocate_outputs(*index, error));
  metadata_ = std::move(metadata);
  module_ = std::move(module);
  forward_ = &forward;
  statistics_.load_seconds = load_seconds;
  return {};
}

Result<Span<const float>> Session::append(Span<const int32_t> tokens, Error &error) {
  EDGECORE_TRY(check_tokens(tokens, error));
  const auto begin = Clock::now();
  EDGECORE_TRY(compute(tokens, nullptr, error));
  const double seconds = seconds_since(begin);
  if (tokens.size() > 1) {
    statistics_.prompt_tokens += tokens.size();
    statistics_.prompt_seconds += seconds;
  } else {
    statistics_.new_tokens += 1;
    statistics_.decode_seconds += seconds;
  }
  return last_logits_;
}

Status Session::logits(Span<const int32_t> tokens, std::vector<float> &logits, Error &error) {
  EDGECORE_TRY(check_tokens(tokens, error));
  logits.clear();
  return compute(tokens, &logits, error);
}

Status Session::generate(Span<const int32_t> prompt, const GenerateOptions &options, const TokenFunction &on_token,
                         Error &error) {
  EDGECORE_TRY(check(options.sampling, error));
  if (options.shifts) {
    if (options.keep > metadata_->context / 2) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, options.keep, " kept tokens are more than half of the context of ",
                  metadata_->context, ".");
    }
    EDGECORE_TRY(check_ids(prompt, error));
    if (prompt.size() > room()) EDGECORE_TRY(shift(std::min(options.keep, tokens_.size()), prompt.size(), error));
  }
  EDGECORE_TRY(check_tokens(prompt, error));
  if (!options.shifts && options.max_new_tokens > 0 && options.max_new_tokens - 1 > room() - prompt.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "A prompt of ", prompt.size(), " tokens and an answer of ",
                options.max_new_tokens, " do not fit into the context of ", metadata_->context, " tokens, of which ",
                tokens_.size(), " are used; shorten them, or export with a longer context, or shift it.");
  }
  is_cancelled_.store(false, std::memory_order_relaxed);
  Result<Span<const float>> logits = append(prompt, error);
  EDGECORE_TRY(logits.status());
  for (size_t count = 1; count <= options.max_new_tokens; ++count) {
    if (is_cancelled_.load(std::memory_order_relaxed)) return {};
    const Result<int32_t> token =
        sampler_.sample(*logits, options.sampling, dropped_ + tokens_.size(), tokens(), options.vocabulary, error);
    EDGECORE_TRY(token.status());
    if (!on_token(*token)) return {};
    const std::vector<int32_t> &ends = metadata_->eos_ids;
    const bool is_end = !options.ignore_eos && std::find(ends.begin(), ends.end(), *token) != ends.end();
    if (is_end || count == options.max_new_tokens || is_cancelled_.load(std::memory_order_relaxed)) return {};
    if (options.shifts && room() == 0) EDGECORE_TRY(shift(options.keep, 1, error));
    const int32_t next[] = {*token};
    logits = append(next, error);
    EDGECORE_TRY(logits.status());
  }
  return {};
}

Status Session::warm_up(Error &error) {
  const int32_t token[] = {0};
  EDGECORE_TRY(check_tokens(token, error));
  EDGECORE_TRY(compute(token, nullptr, error));
  return take_back_to(tokens_.size() - 1, error);
}

Status Session::rewind(size_t count, Error &error) {
  if (count > tokens_.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The sequence has ", tokens_.size(),
                " tokens, so it cannot be rewound to ", count, ".");
  }
  if (count == 0) dropped_ = 0;
  return take_back_to(count, error);
}

Status Session::shift(size_t keep, size_t count, Error &error) {
  if (keep > tokens_.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The first ", keep, " tokens cannot be kept: the sequence has ",
                tokens_.size(), ".");
  }
  if (keep > metadata_->context || count > metadata_->context - keep) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, count, " tokens after the ", keep,
                " that are kept do not fit into the context of ", metadata_->context,
                "; shorten the prompt, or keep fewer.");
  }
  const size_t after = tokens_.size() - keep;
  const size_t dropped = std::min(std::max((after + 1) / 2, count > room() ? count - room() : 0), after);
  const std::vector<int32_t> kept(tokens_.begin() + static_cast<std::ptrdiff_t>(keep + dropped), tokens_.end());
  const auto begin = Clock::now();
  EDGECORE_TRY(take_back_to(keep, error));
  dropped_ += dropped;
  EDGECORE_TRY(compute({kept.data(), kept.size()}, nullptr, error));
  statistics_.decode_seconds += seconds_since(begin);
  return {};
}

Status Session::take_back_to(size_t count, Error &error) {
  const bool is_lost = metadata_->rewindable >= 0 && written_ - count > static_cast<size_t>(metadata_->rewindable);
  if (!is_lost) {
    tokens_.resize(count);
    return {};
  }
  const std::vector<int32_t> kept(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(count));
  tokens_.clear();
  return compute({kept.data(), kept.size()}, nullptr, error);
}

Status Session::check_tokens(Span<const int32_t> tokens, Error &error) const {
  if (tokens.empty()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "There are no tokens; a prompt needs at least one.");
  }
  if (tokens.size() > room()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, tokens.size(), " tokens do not fit into the context of ",
                metadata_->context, " tokens, of which ", tokens_.size(),
                " are used; shorten the prompt, or export with a longer context.");
  }
  return check_ids(tokens, error);
}

Status Session::check_ids(Span<const int32_t> tokens, Error &error) const {
  for (const int32_t token : tokens) {
    if (token >= 0 && static_cast<size_t>(token) < metadata_->vocabulary) continue;
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Token ", token, " is outside of the model's vocabulary of ",
                metadata_->vocabulary, "; does the tokenizer belong to the model?");
  }
  return {};
}

// Runs the model on tokens, at most Metadata::chunk in each call. Appends the logits of all tokens to `all`. If `all`
// is NULL, computes only the logits of the last token of each call.
Status Session::compute(Span<const int32_t> tokens, std::vector<float> *all, Error &error) {
  for (size_t first = 0; first < tokens.size(); first += metadata_->chunk) {
    const size_t size = std::min(metadata_->chunk, tokens.size() - first);
    const Span<const int32_t> part(tokens.data() + first, size);
    const size_t end = tokens_.size() + size;
    written_ = tokens_.empty() ? end : std::max(written_, end);
    EDGECORE_TRY(run(part, all == nullptr, error));
    tokens_.insert(tokens_.end(), part.begin(), part.end());
    if (all != nullptr) all->insert(all->end(), last_logits_.begin(), last_logits_.end());
  }
  return {};
}

// Runs the method on at most Metadata::chunk tokens, and sets last_logits_.
Status Session::run(Span<const int32_t> part, bool is_last_only, Error &error) {
  for (std::vector<int64_t> &input : inputs_) input.clear();
  for (size_t i = 0; i < part.size(); ++i) {
    inputs_[0].push_back(part[i]);
    inputs_[1].push_back(static_cast<int64_t>(tokens_.size() + i));
    if (!is_last_only || i + 1 == part.size()) inputs_[2].push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < 3; ++i) {
    const int64_t shape[] = {static_cast<int64_t>(inputs_[i].size())};
    TensorArgument argument;
    argument.data = inputs_[i].data();
    argument.scalar_type = scalar_type_of<int64_t>();
    argument.shape = shape;
    EDGECORE_TRY(forward_->set_input(i, argument, error));
  }
  EDGECORE_TRY(forward_->execute(error));
  const edgecore_tensor &logits = *forward_->output(0).as.tensor;
  const size_t count = inputs_[2].size() * metadata_->vocabulary;
  if (logits.dl.ndim != 2 || logits.dl.shape[0] != static_cast<int64_t>(inputs_[2].size()) ||
      logits.dl.shape[1] != static_cast<int64_t>(metadata_->vocabulary)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The method forward does not return logits of the vocabulary.");
  }
  const auto *data = static_cast<const uint8_t *>(logits.dl.data) + logits.dl.byte_offset;
  last_logits_ = {reinterpret_cast<const float *>(data), count};
  return {};
}

}  // namespace edgecore::llm
