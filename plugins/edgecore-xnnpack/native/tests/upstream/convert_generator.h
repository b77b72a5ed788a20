// Defines `testing::ConvertGenerator`, which XNNPACK's tests use, for the GoogleTest 1.12 of Debian 12; 1.13 has it.
#pragma once
#include <gtest/gtest.h>

#include <vector>

namespace testing {

// Converts to the generator of a class `Param` with a constructor from `From`: `Combine`, converted.
template <typename From, typename Generator>
class Converted {
 public:
  explicit Converted(Generator generator) : generator_(generator) {}

  template <typename Param>
  operator internal::ParamGenerator<Param>() const {
    std::vector<Param> params;
    for (const From &value : internal::ParamGenerator<From>(generator_)) params.push_back(Param(value));
    return ValuesIn(params);
  }

 private:
  Generator generator_;
};

template <typename From, typename Generator>
Converted<From, Generator> ConvertGenerator(Generator generator) {
  return Converted<From, Generator>(generator);
}

}  // namespace testing
