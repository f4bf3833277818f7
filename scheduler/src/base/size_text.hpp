// What sizes and budgets have in common as they are written: a number with a unit, or a percentage.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct SizeText {
  double number = 0;  // bytes, or percent
  bool is_share = false;
};

// What is wrong with a text is said of the whole of it.
class SizeReader {
 public:
  // `name` and `given` begin each message, `forms` ends it. Both texts must outlive this.
  SizeReader(const std::string& name, const std::string& given, const char* forms)
      : name_(name), given_(given), forms_(forms) {}

  // `text`: the part of what was given that is to be a size. `whole`: what a percentage is of, in
  // words. Throws std::invalid_argument; a number from 0 to 1 without a unit does where it is all
  // that was given, since a share is meant there.
  SizeText read(std::string_view text, const char* whole) const;
  std::invalid_argument reject(const std::string& why, const char* before = "Forms: 30GiB, ") const;

 private:
  const std::string& name_;
  const std::string& given_;
  const char* const forms_;
};

std::string inLowerCase(std::string_view text);

// In whole bytes; 0 is none.
Bytes shareOf(double percent, Bytes whole);

}  // namespace ebbtide::scheduler
