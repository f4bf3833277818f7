// The training programs of the C++ zoo. Plain LibTorch: none knows of Ebbtide, but some say where a
// step ends.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ebbtide::cpp_zoo {

struct Training {
  std::vector<torch::Tensor> parameters;
  // A step up to the gradients, which are none at its start; returns its losses.
  std::function<std::vector<torch::Tensor>()> step;
};

// By name: sets it up, from the default generator's state.
const std::map<std::string, std::function<Training()>>& programs();

}  // namespace ebbtide::cpp_zoo
