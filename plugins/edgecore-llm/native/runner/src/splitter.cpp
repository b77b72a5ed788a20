#include "splitter.h"

#include <algorithm>

#include "unicode.h"

namespace edgecore::llm {
namespace {

struct Span {
  Range range;
  bool is_match;
};

// Divides a text into spans: the matches, and the texts between them.
std::vector<Span> spans_of(const std::string &text, const std::vector<Range> &matches, bool is_inverted) {
  std::vector<Span> spans;
  size_t done = 0;
  for (const Range &match : matches) {
    if (done < match.begin) spans.push_back({{done, match.begin}, is_inverted});
    spans.push_back({match, !is_inverted});
    done = match.end;
  }
  if (done < text.size()) spans.push_back({{done, text.size()}, is_inverted});
  return spans;
}

// Joins a span (a match, or a text between matches) to the piece before it if `joins(is_match, was_match)`; the
// arguments tell whether the span and the span before it are matches.
template <typename Joins>
std::vector<Range> joined(const std::vector<Span> &spans, const Joins &joins) {
  std::vector<Range> pieces;
  bool was_match = false;
  for (const Span &span : spans) {
    if (!pieces.empty() && joins(span.is_match, was_match)) {
      pieces.back().begin = std::min(pieces.back().begin, span.range.begin);
      pieces.back().end = std::max(pieces.back().end, span.range.end);
    } else {
      pieces.push_back(span.range);
    }
    was_match = span.is_match;
  }
  return pieces;
}

std::vector<Range> arrange(std::vector<Span> spans, Behavior behavior) {
  std::vector<Range> pieces;
  const auto is_next_of_other = [](bool is_match, bool was_match) { return is_match && !was_match; };
  switch (behavior) {
    case Behavior::kRemoved:
      for (const Span &span : spans) {
        if (!span.is_match) pieces.push_back(span.range);
      }
      break;
    case Behavior::kIsolated:
      for (const Span &span : spans) pieces.push_back(span.range);
      break;
    case Behavior::kContiguous:
      pieces = joined(spans, [](bool is_match, bool was_match) { return is_match == was_match; });
      break;
    case Behavior::kMergedWithPrevious:
      pieces = joined(spans, is_next_of_other);
      break;
    case Behavior::kMergedWithNext:
      std::reverse(spans.begin(), spans.end());
      pieces = joined(spans, is_next_of_other);
      std::reverse(pieces.begin(), pieces.end());
      break;
  }
  return pieces;
}

void replace_all(const std::vector<Range> &matches, const std::string &content, std::string &text) {
  std::string changed;
  size_t done = 0;
  for (const Range &match : matches) {
    changed.append(text, done, match.begin - done).append(content);
    done = match.end;
  }
  text = changed.append(text, done, std::string::npos);
}

void mark_front(const Splitting &step, Piece &piece) {
  if (step.replaces_spaces) {
    for (size_t place = piece.text.find(' '); place != std::string::npos;
         place = piece.text.find(' ', place + step.mark.size())) {
      piece.text.replace(place, 1, step.mark);
    }
  }
  const bool wants =
      step.prefix == Splitting::Prefix::kAlways || (step.prefix == Splitting::Prefix::kFirst && piece.is_at_begin);
  if (wants && piece.text.compare(0, step.mark.size(), step.mark) != 0) piece.text.insert(0, step.mark);
}

}  // namespace

Status Pattern::compile(const std::string &expression, Error &error) {
  regex_ = std::make_unique<Regex>();
  return regex_->compile(expression, error);
}

Status Pattern::find_all(const std::string &text, std::vector<Range> &matches, Error &error) const {
  if (regex_ != nullptr) return regex_->find_all(text, matches, error);
  if (literal_.empty()) return {};
  for (size_t place = text.find(literal_); place != std::string::npos;
       place = text.find(literal_, place + literal_.size())) {
    matches.push_back({place, place + literal_.size()});
  }
  return {};
}

Status normalize(const std::vector<Normalization> &steps, std::string &text, Error &error) {
  for (const Normalization &step : steps) {
    if (step.kind == Normalization::Kind::kCompose) {
      text = composed(text);
    } else if (step.kind == Normalization::Kind::kPrepend) {
      if (!text.empty()) text.insert(0, step.content);
    } else {
      std::vector<Range> matches;
      EDGECORE_TRY(step.pattern.find_all(text, matches, error));
      if (!matches.empty()) replace_all(matches, step.content, text);
    }
  }
  return {};
}

Status split(const std::vector<Splitting> &steps, std::vector<Piece> &pieces, Error &error) {
  std::vector<Piece> divided;
  std::vector<Range> matches;
  for (const Splitting &step : steps) {
    divided.clear();
    for (Piece &piece : pieces) {
      if (piece.text.empty()) continue;
      mark_front(step, piece);
      if (!step.splits) {
        divided.push_back(std::move(piece));
        continue;
      }
      matches.clear();
      EDGECORE_TRY(step.pattern.find_all(piece.text, matches, error));
      for (const Range &range : arrange(spans_of(piece.text, matches, step.is_inverted), step.behavior)) {
        divided.push_back(
            {piece.text.substr(range.begin, range.end - range.begin), piece.is_at_begin && range.begin == 0});
      }
    }
    pieces.swap(divided);
  }
  return {};
}

}  // namespace edgecore::llm
