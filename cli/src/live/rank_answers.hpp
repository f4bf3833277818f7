// What ranks answered to one question, for people and for programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// Of all verbs, of the first rank with a problem: kNoRun for no answer, kInfeasible for a budget
// that cannot be, kBadInput for what the server could not read, kRefused for the rest. kNoRun where
// nobody answered at all.
int exitCodeOf(const std::vector<RankAnswer>& answers);

// The problem, and after it the code of the cause where the rank has told one: "… [EB128]". Before
// a last sentence with a command: "… [EB128]. Smallest budget now: ebbtide budget 0 9216MiB".
std::string problemOf(const RankAnswer& answer);

// `job` is an id, or empty, and null then:
// {"job_id": …, "ranks": [{"rank": 0, …the answer…} | {"rank": 1, "error": "…", "code": "EB128"}]}
// A cause that no rank has told (nobody listens there) has no code.
nlohmann::json toJson(const std::string& job, const std::vector<RankAnswer>& answers);

// The answers as JSON, or a line for each made by `line`; problems and the job's notes go to
// stderr. Returns exitCodeOf().
int print(const RunningJob& job, const std::vector<RankAnswer>& answers, bool json,
          const std::function<std::string(const RankAnswer&)>& line);

// On stderr.
void printNotes(const std::vector<std::string>& notes);

}  // namespace ebbtide::cli
