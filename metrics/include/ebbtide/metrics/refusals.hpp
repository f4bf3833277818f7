// Refusals: the causes for which a request is not carried out. A code keeps its cause, and is never
// given to another one. docs/control.md has a row for each code (test_message_codes.py compares
// them). Codes below EB101 are those of a run's lines with the same cause.
#pragma once

#include <algorithm>
#include <string_view>

namespace ebbtide::metrics {

// "EB01" to "EB999", as openapi.json has them. What else listens on a rank's socket may say
// anything.
inline bool isCode(std::string_view text) {
  return (text.size() == 4 || text.size() == 5) && text.starts_with("EB") &&
         std::all_of(text.begin() + 2, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Refusal {
  const char* code;
  int status;  // HTTP's
};

namespace refusals {

// Of any server.
inline constexpr Refusal kNotHttp{"EB101", 400};
inline constexpr Refusal kTarget{"EB102", 400};
inline constexpr Refusal kHostHeader{"EB103", 400};
inline constexpr Refusal kBody{"EB104", 400};
inline constexpr Refusal kRankNumber{"EB105", 400};
inline constexpr Refusal kToken{"EB106", 401};
inline constexpr Refusal kReadOnly{"EB107", 403};
inline constexpr Refusal kOtherUser{"EB108", 403};
inline constexpr Refusal kOtherSite{"EB109", 403};
inline constexpr Refusal kNoSuchPath{"EB110", 404};
inline constexpr Refusal kNoSuchRank{"EB111", 404};
inline constexpr Refusal kMethod{"EB112", 405};
inline constexpr Refusal kLargeBody{"EB113", 413};
inline constexpr Refusal kExpectation{"EB114", 417};
inline constexpr Refusal kOtherHost{"EB115", 421};
inline constexpr Refusal kTooMuchAtOnce{"EB116", 429};
inline constexpr Refusal kLargeHeader{"EB117", 431};
inline constexpr Refusal kFailed{"EB118", 500};
inline constexpr Refusal kNoMemory{"EB119", 503};
inline constexpr Refusal kUnanswered{"EB120", 503};
inline constexpr Refusal kAnswersNotTaken{"EB121", 503};
inline constexpr Refusal kRunEnds{"EB122", 503};
inline constexpr Refusal kRankSilent{"EB123", 503};
inline constexpr Refusal kLate{"EB124", 504};

// Of a rank.
inline constexpr Refusal kForked{"EB34", 503};
inline constexpr Refusal kPassesThrough{"EB55", 409};
inline constexpr Refusal kKeepsEverything{"EB48", 409};
inline constexpr Refusal kPaused{"EB43", 409};
inline constexpr Refusal kNoPlan{"EB12", 500};
inline constexpr Refusal kNotAnalysed{"EB52", 500};
inline constexpr Refusal kOtherAllocator{"EB125", 409};
inline constexpr Refusal kNothingRecorded{"EB126", 503};
inline constexpr Refusal kNotMeasured{"EB127", 503};
inline constexpr Refusal kBudgetTooSmall{"EB128", 409};
inline constexpr Refusal kMoreThanThereIs{"EB129", 409};
inline constexpr Refusal kSuperseded{"EB130", 409};
inline constexpr Refusal kNotNow{"EB131", 409};
inline constexpr Refusal kCannotRecord{"EB132", 500};

}  // namespace refusals
}  // namespace ebbtide::metrics
