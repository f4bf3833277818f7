// What the examples train: a small convolutional network with dropout, on striped images.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

inline constexpr int kSide = 32;    // pixels
inline constexpr int kClasses = 8;  // directions of the stripes

struct Options {
  int steps = 30;
  int layers = 9;
  int width = 24;
  int batch = 64;
  int seed = 1337;
  std::string out;
};

inline Options parse(int argc, char** argv) {
  Options options;
  const std::vector<std::pair<std::string_view, int*>> numbers = {{"--steps", &options.steps},
                                                                  {"--layers", &options.layers},
                                                                  {"--width", &options.width},
                                                                  {"--batch", &options.batch},
                                                                  {"--seed", &options.seed}};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument("no value for " + std::string(name));
    bool known = name == "--out";
    if (known) options.out = argv[i + 1];
    for (const auto& [spelling, target] : numbers) {
      if (name != spelling) continue;
      *target = std::stoi(argv[i + 1]);
      known = true;
    }
    if (!known) throw std::invalid_argument("unknown option " + std::string(name));
  }
  return options;
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width)
      : first(torch::nn::Conv2dOptions(width, width, 3).padding(1).bias(false)),
        first_norm(width),
        second(torch::nn::Conv2dOptions(width, width, 3).padding(1).bias(false)),
        second_norm(width),
        dropout(0.1) {
    register_module("first", first);
    register_module("first_norm", first_norm);
    register_module("second", second);
    register_module("second_norm", second_norm);
    register_module("dropout", dropout);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = torch::gelu(first_norm(first(x)));
    y = x + dropout(second_norm(second(y)));
    return torch::relu_(y);
  }

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d first_norm;
  torch::nn::Conv2d second;
  torch::nn::BatchNorm2d second_norm;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(Block);

struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(const Options& options)
      : stem(torch::nn::Conv2dOptions(1, options.width, 3).padding(1)),
        head(options.width, kClasses) {
    register_module("stem", stem);
    for (int i = 0; i < options.layers; ++i) blocks->push_back(Block(options.width));
    register_module("blocks", blocks);
    register_module("head", head);
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = torch::relu(stem(images));
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return head(x.mean({2, 3}));
  }

  torch::nn::Conv2d stem;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head;
};
TORCH_MODULE(Network);

// Stripes in one of kClasses directions with random phase, under noise.
inline std::pair<torch::Tensor, torch::Tensor> draw_batch(int batch, torch::Generator& generator) {
  const auto labels = torch::randint(kClasses, {batch}, generator, torch::kLong);
  const auto angle =
      labels.to(torch::kFloat).mul(std::numbers::pi / kClasses).view({batch, 1, 1, 1});
  const auto phase = torch::rand({batch, 1, 1, 1}, generator).mul(2 * std::numbers::pi);
  const auto axis = torch::arange(kSide, torch::kFloat);
  const auto across = axis.view({1, 1, 1, kSide}) * angle.cos();
  const auto down = axis.view({1, 1, kSide, 1}) * angle.sin();
  const auto noise = torch::randn({batch, 1, kSide, kSide}, generator);
  return {torch::sin(across + down + phase) + 0.5 * noise, labels};
}

// FNV-1a, 64 bits, over the bytes of every parameter and buffer in order.
inline std::uint64_t fingerprint(const torch::nn::Module& module) {
  std::uint64_t hash = 14695981039346656037ULL;
  auto add = [&hash](const torch::Tensor& tensor) {
    const auto contiguous = tensor.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(contiguous.const_data_ptr());
    for (std::size_t i = 0; i < contiguous.nbytes(); ++i)
      hash = (hash ^ bytes[i]) * 1099511628211ULL;
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  return hash;
}

inline std::string format(const char* pattern, auto value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
