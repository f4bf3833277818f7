// Placement problems as tables: a row of names, then a row a buffer.
//
//   id,lower,upper,size          any order of columns; others may be there, and are kept
//   conv1,0,12,4096              lower, upper, size: whole numbers; id: any text, each another one
//
// Fields may be quoted as RFC 4180 says, but hold no line break. Lines end in LF or CRLF.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

struct PlacementTable {
  PlacementProblem problem;
  std::vector<std::string> ids;   // of the buffers
  std::vector<std::string> rows;  // as they are in the file, the names' row first
  std::string line_end;           // "\n", "\r\n"
};

// Throws std::invalid_argument naming the line.
PlacementTable placementFromCsv(const std::string& text);

// The table with the column `offset`: the last one, or in place of the one that there was.
std::string toCsv(const PlacementTable& table, const std::vector<Bytes>& offsets);

}  // namespace ebbtide::scheduler
