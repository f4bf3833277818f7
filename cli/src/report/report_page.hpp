#pragma once

#include <string>
#include <vector>

#include "report/run_report.hpp"

namespace ebbtide::cli {

// One self-contained HTML page: nothing is loaded from elsewhere, nothing runs in it.
std::string reportPage(const std::vector<RunReport>& reports);

}  // namespace ebbtide::cli
