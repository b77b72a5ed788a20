#include "regular_expression.h"

#include <pcre2.h>

#include "oniguruma.h"

namespace edgecore::llm {
namespace {

struct FreeContext {
  void operator()(pcre2_compile_context *context) const { pcre2_compile_context_free(context); }
};

struct FreeMatch {
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
};

}  // namespace

void Regex::Free::operator()(void *code) const { pcre2_code_free(static_cast<pcre2_code *>(code)); }

Status Regex::compile(const std::string &pattern, Error &error) {
  std::string changed;
  if (const char *reason = pcre2_pattern(pattern, changed); reason != nullptr) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "the pattern ", pattern.c_str(), " cannot be used: ", reason);
  }
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Memory does not suffice.");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE place = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(changed.data()), changed.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &place, context.get()));
  if (code_ == nullptr) {
    char reason[200] = "";
    pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR *>(reason), sizeof reason);
    return fail(error, EDGECORE_NOT_SUPPORTED, "the pattern ", pattern.c_str(), " cannot be used: ", reason);
  }
  uint32_t is_empty_found = 0;
  pcre2_pattern_info(static_cast<pcre2_code *>(code_.get()), PCRE2_INFO_MATCHEMPTY, &is_empty_found);
  if (is_empty_found != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "the pattern ", pattern.c_str(),
                " cannot be used: it matches an empty text");
  }
  // Ignore a failure: without JIT code, searches are only slower.
  pcre2_jit_compile(static_cast<pcre2_code *>(code_.get()), PCRE2_JIT_COMPLETE);
  return {};
}

Status Regex::find_all(const std::string &text, std::vector<Range> &matches, Error &error) const {
  const auto *code = static_cast<const pcre2_code *>(code_.get());
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create_from_pattern(code, nullptr));
  if (data == nullptr) return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Memory for a search does not suffice.");
  for (size_t place = 0; place < text.size();) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), place,
                         options | PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    };
    int found = match(0);
    // If the stack of the JIT code is too small, search without JIT code: this is slower, but has its stack on the
    // heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      return fail(error, EDGECORE_NOT_SUPPORTED, "The search for the pattern of the tokenizer exceeds its limits.");
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
    matches.push_back({range[0], range[1]});
    place = range[1];
  }
  return {};
}

}  // namespace edgecore::llm
