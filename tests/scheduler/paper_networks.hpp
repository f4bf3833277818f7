// Networks as kusumoto2019 sees them: a node an operation, T = 10 for a convolution and 1 for any
// other, M in KiB of one image's output. Made here, with the shape and the node count of those in
// Table 1; sizes follow channels x width^2.
#pragma once

#include <cstdint>
#include <vector>

#include "planners/lower_sets/lower_sets.hpp"

namespace ebbtide::scheduler {

class NetworkBuilder {
 public:
  using Node = std::int32_t;

  Node add(const std::vector<Node>& inputs, std::int64_t channels, std::int64_t width,
           std::int64_t time = 1) {
    const Node id = static_cast<Node>(problem_.time.size());
    problem_.time.push_back(time);
    problem_.memory.push_back(1 + channels * width * width / 256);  // KiB of 4-byte numbers
    problem_.next.emplace_back();
    for (Node input : inputs) {
      if (input >= 0) problem_.next[static_cast<std::size_t>(input)].push_back(id);
    }
    return id;
  }

  Node convolution(Node input, std::int64_t channels, std::int64_t width) {
    return add({input}, channels, width, 10);
  }
  // Convolution, batch normalisation.
  Node normalised(Node input, std::int64_t channels, std::int64_t width) {
    return add({convolution(input, channels, width)}, channels, width);
  }
  // Convolution, batch normalisation, ReLU.
  Node activated(Node input, std::int64_t channels, std::int64_t width) {
    return add({normalised(input, channels, width)}, channels, width);
  }

  // A bottleneck block: three convolutions beside the shortcut.
  Node bottleneck(Node input, std::int64_t channels, std::int64_t width, bool project) {
    const Node first = activated(input, channels / 4, width);
    const Node second = activated(first, channels / 4, width);
    const Node third = normalised(second, channels, width);
    const Node shortcut = project ? normalised(input, channels, width) : input;
    return add({add({third, shortcut}, channels, width)}, channels, width);
  }

  LowerSetProblem take() { return std::move(problem_); }

 private:
  LowerSetProblem problem_;
};

inline constexpr NetworkBuilder::Node kImage = -1;

inline NetworkBuilder::Node resnetBody(NetworkBuilder& net, const std::vector<int>& blocks,
                                       std::int64_t width, std::int64_t last_widths) {
  NetworkBuilder::Node node = net.activated(kImage, 64, width);
  node = net.add({node}, 64, width /= 2);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    if (stage > 0 && width > last_widths) width /= 2;
    for (int block = 0; block < blocks[stage]; ++block) {
      node = net.bottleneck(node, std::int64_t{256} << stage, width, block == 0);
    }
  }
  return node;
}

// 516 nodes in the paper.
inline LowerSetProblem resnet152() {
  NetworkBuilder net;
  NetworkBuilder::Node node = resnetBody(net, {3, 8, 36, 3}, 112, 1);
  for (int i = 0; i < 4; ++i) node = net.add({node}, 2048, 1);
  return net.take();
}

// 568 nodes in the paper: each layer reads the concatenation of all before it in its block.
inline LowerSetProblem densenet161() {
  NetworkBuilder net;
  std::int64_t width = 56, channels = 96;
  NetworkBuilder::Node node = net.add({net.activated(kImage, 96, 112)}, 96, width);
  const std::vector<int> layers{6, 12, 36, 24};
  for (std::size_t block = 0; block < layers.size(); ++block) {
    for (int layer = 0; layer < layers[block]; ++layer) {
      auto inner = net.add({net.add({node}, channels, width)}, channels, width);
      inner = net.convolution(
          net.add({net.add({net.convolution(inner, 192, width)}, 192, width)}, 192, width), 48,
          width);
      node = net.add({node, inner}, channels += 48, width);
    }
    if (block + 1 == layers.size()) break;
    node = net.add({net.add({node}, channels, width)}, channels, width);
    node = net.add({net.convolution(node, channels /= 2, width)}, channels, width / 2);
    width /= 2;
  }
  for (int i = 0; i < 5; ++i) node = net.add({node}, channels, 1);
  return net.take();
}

// 134 nodes in the paper: nine modules of four branches.
inline LowerSetProblem googlenet() {
  NetworkBuilder net;
  const auto relu = [&net](NetworkBuilder::Node input, std::int64_t channels, std::int64_t width) {
    return net.add({net.convolution(input, channels, width)}, channels, width);
  };
  NetworkBuilder::Node node = net.add({relu(kImage, 64, 112)}, 64, 56);
  node = net.add({relu(relu(net.add({node}, 64, 56), 64, 56), 192, 56)}, 192, 56);
  node = net.add({node}, 192, 28);
  std::int64_t width = 28;
  for (int module = 0; module < 9; ++module) {
    if (module == 2 || module == 7) node = net.add({node}, 480 + 32 * module, width /= 2);
    const std::int64_t c = 64 + 24 * module;
    const auto one = net.convolution(node, c, width);
    const auto three = net.convolution(relu(node, c, width), 3 * c / 2, width);
    const auto five = net.convolution(relu(node, c / 4, width), c / 2, width);
    const auto pooled = net.convolution(net.add({node}, 4 * c, width), c / 2, width);
    node = net.add({net.add({one, three, five, pooled}, 7 * c / 2, width)}, 7 * c / 2, width);
  }
  for (int i = 0; i < 4; ++i) node = net.add({node}, 1024, 1);
  return net.take();
}

// 385 nodes in the paper: a ResNet-101 without the last two strides, a pyramid of four branches,
// a second head.
inline LowerSetProblem pspnet() {
  NetworkBuilder net;
  const auto body = resnetBody(net, {3, 4, 23, 3}, 356, 89);
  std::vector<NetworkBuilder::Node> pyramid{body};
  for (std::int64_t bins : {1, 2, 3, 6}) {
    const auto pooled = net.add({body}, 2048, bins);
    pyramid.push_back(net.add({net.activated(pooled, 512, bins)}, 512, 89));
  }
  auto head = net.activated(net.add(pyramid, 4096, 89), 512, 89);
  head = net.add({net.convolution(net.add({head}, 512, 89), 150, 89)}, 150, 713);
  net.add({head}, 1, 1);
  return net.take();
}

}  // namespace ebbtide::scheduler
