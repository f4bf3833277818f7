// A rank's live bytes along one step, against its budget.
#pragma once

#include <string>

#include "report/run_report.hpp"

namespace ebbtide::cli {

// An <svg> without styles of its own: the page around it has those of its classes (area, budget,
// predicted, grid, text). Empty where the report has no timeline.
std::string timelineSvg(const RunReport& report);

}  // namespace ebbtide::cli
