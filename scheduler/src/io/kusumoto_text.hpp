// The text format in which the authors of kusumoto2019 published their graphs.
//
//   #variables #functions
//   id bytes name                  a line a variable; name "_": an intermediate result
//   forward | backward             and so on, a function
//   #inputs #outputs
//   id tag                         a line an input: the variable's value, or ("gradient") its
//   gradient id                             a line an output: a value, or of a backward function a
//   gradient type
//   {..., "rank": 12, ...}         its depth in the forward pass
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebbtide::scheduler {

struct KusumotoFunction {
  struct Input {
    std::size_t variable = 0;
    bool gradient = false;
  };
  std::string type;
  std::int64_t rank = 0;
  std::size_t line = 0;  // where it begins
  bool backward = false;
  std::vector<Input> inputs;
  std::vector<std::size_t> outputs;  // distinct
};

struct KusumotoFile {
  std::vector<std::int64_t> bytes;  // per variable
  // Those of the forward pass by rising rank, then those of the backward pass by falling rank. No
  // variable is made twice in the forward pass, or read there before it is made.
  std::vector<KusumotoFunction> functions;
};

// Throws std::invalid_argument that names the line.
KusumotoFile parseKusumotoText(const std::string& text);

}  // namespace ebbtide::scheduler
